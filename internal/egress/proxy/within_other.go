//go:build !linux

package proxy

import "errors"

func within(string, func() error) error {
	return errors.New("only Linux has network namespaces")
}
