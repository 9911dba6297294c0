// Package executorv1 is the service of executor plugins, generated from executor.proto.
package executorv1
