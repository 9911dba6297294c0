// Package stepsv0 holds the messages of GitLab's existing step-runner, as of its v0.11. It is generated from step.proto;
// steps/stepproto converts between it and our own types.
package stepsv0
