# For scripts that compile: `. scripts/flags.sh`. What is linted, tested and released is compiled with the same flags, so that each package is compiled once for
# all of it (and once more for the race detector).
#
# grpcnotrace leaves out gRPC's page of recent requests, which nothing here serves, and with it 3 MB: the templates of that page keep
# the linker from leaving out any method of anything. -trimpath leaves out the paths of this machine, -dwarf=false what a debugger needs, a seventh of compiling.
export CGO_ENABLED=0
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-tags=grpcnotrace -trimpath -gcflags=all=-dwarf=false"
