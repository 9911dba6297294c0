package program

import (
	"context"
	"fmt"
	"os"

	"github.com/rungci/rung/internal/process"
)

// RunScript is Run for a program that reads a text, which may hold secrets, from the file whose path is its last argument. On Linux the text is
// on no disk: the path leads to a descriptor that the program is given. The caller removes the path.
func (c *Call) RunScript(ctx context.Context, more []string, text, path string, args ...string) error {
	_ = os.Remove(path) // of another try
	file, err := process.MemoryFile([]byte(text))
	if err != nil {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return fmt.Errorf("handing the script over: %w", err)
		}
		return c.Run(ctx, "", more, append(args, path)...)
	}
	defer file.Close()
	if err := os.Symlink(process.FilePath(0), path); err != nil {
		return fmt.Errorf("handing the script over: %w", err)
	}
	spec := c.spec("", more, c.Stdout, append(args, path))
	spec.Files = []*os.File{file}
	return c.run(ctx, spec)
}
