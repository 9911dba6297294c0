//go:build !unix

package direct

import (
	"errors"
	"os"
)

var errNoPipes = errors.New("this system has no named pipes")

type pipe struct{ path string }

func newPipe(string) (*pipe, error) { return nil, errNoPipes }

func makePipe(string) error { return errNoPipes }

func (p *pipe) send([]byte, <-chan struct{}) error { return errNoPipes }

func (p *pipe) Close() error { return nil }

func releasePipes(string) {}

func openReading(string) (*os.File, error) { return nil, errNoPipes }

func openPipe(string) (*os.File, error) { return nil, errNoPipes }
