package remotefiles

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// maxOverwrite bounds what a file gets in place of its content, in bytes.
const maxOverwrite = 1 << 20

// overwrite gives a file that exists another content. The file stays the same one: it may be mounted.
func overwrite(path string, in io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(in, maxOverwrite+1))
	if err != nil {
		return err
	}
	if len(text) > maxOverwrite {
		return fmt.Errorf("%s would get more than %d bytes", path, maxOverwrite)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}
