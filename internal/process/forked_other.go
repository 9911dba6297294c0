//go:build unix && !linux

package process

func (c *child) forkedKilled() bool { return false }
