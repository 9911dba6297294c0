//go:build !unix

package proxy

// GiveUpRights makes a process of root one of nobody, where there is such a user.
func GiveUpRights() error { return nil }
