package keys

import (
	"fmt"
	"io"
	"os"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/steps/signature"
)

// ReadEnvelope reads the signatures in a file.
func ReadEnvelope(path string) (*signature.Envelope, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the signatures: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, signature.MaxEnvelope+1))
	if err != nil {
		return nil, exit.Coded(exit.System, "reading the signatures: %v", err)
	}
	envelope, err := signature.ParseEnvelope(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return envelope, nil
}
