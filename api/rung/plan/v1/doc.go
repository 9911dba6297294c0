// Package planv1 is the baseline definition as protobuf messages: the contract for programs that make, store or read
// definitions. It is generated from plan.proto; steps/plan/planpb converts between it and steps/plan.
package planv1
