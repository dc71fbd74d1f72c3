"""The paper's equations as pure functions of tensors.

Shapes use the letters of the paper and of this project throughout: B batch, K critics, N action dimensions,
A choices per dimension (padded), Z atoms. `utilities: [K, B, N, A]`, chosen utilities `[K, B, N]`, Q-values `[K, B]`,
target `y: [B]`. A *utility* belongs to one dimension, a *Q-value* to the whole action.
"""
