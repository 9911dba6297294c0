// Package runnerv1 is the gRPC service of step-runner: the contract for programs that run steps somewhere else. It is generated
// from runner.proto; docs/service.md is the manual, and steps/service/client a client in Go.
package runnerv1
