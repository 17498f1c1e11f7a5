"""One process of many: process groups, collectives, replicas, stages of a pipeline."""
