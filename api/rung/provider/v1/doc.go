// Package providerv1 is the contract of provider plugins in Go.
package providerv1
