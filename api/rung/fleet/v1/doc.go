// Package fleetv1 is the contract of instance-group plugins in Go.
package fleetv1
