#!/bin/bash
# sbatch slurm.sh: a learner on the first node, actors on the others. Submit it again after the time limit: it resumes.
#SBATCH --job-name=revalued
#SBATCH --nodes=5
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
# SIGTERM to this script two minutes before the end: time to write a checkpoint
#SBATCH --signal=B:TERM@120
set -euo pipefail

run=runs/dog-walk-cluster
actors=$(( (SLURM_JOB_NUM_NODES - 1) * SLURM_CPUS_PER_TASK ))
port=$(( 20000 + SLURM_JOB_ID % 10000 )) # so that two jobs on one node do not meet
# Other people's jobs are in this network: without the token they could run code as you.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$HOME/.ray/auth_token
ray get-auth-token --generate > /dev/null

nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
head=$(srun --nodes=1 --ntasks=1 --nodelist="${nodes[0]}" hostname --ip-address | awk '{print $1}')
srun --overlap --nodes=1 --ntasks=1 --nodelist="${nodes[0]}" \
    ray start --head --node-ip-address="$head" --port="$port" --num-cpus=0 --include-dashboard=false --block &
sleep 15
srun --overlap --nodes=$(( SLURM_JOB_NUM_NODES - 1 )) --ntasks=$(( SLURM_JOB_NUM_NODES - 1 )) --exclude="${nodes[0]}" \
    ray start --address="$head:$port" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
sleep 15

# this script runs on the first node, so the learner does too
if [ -e "$run/config.json" ]; then
    revalued resume "$run" --cluster "$head:$port" &
else
    revalued train dog-walk --actors "$actors" --cluster "$head:$port" --out "$run" &
fi
learner=$!
trap 'kill -TERM $learner' TERM
wait $learner || wait $learner # the first wait ends with the signal, the second with the checkpoint
