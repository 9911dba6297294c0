#!/bin/sh
# Stands for a build that takes long.
echo "a $1 build"
