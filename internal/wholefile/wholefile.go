// Package wholefile replaces files atomically: a reader sees the old content or the new content, never a part of either.
package wholefile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces the file at path by what write writes. What was there stays until all of it is written. The folder must be there.
func Write(path string, mode fs.FileMode, write func(io.Writer) error) error {
	temp, err := os.CreateTemp(filepath.Dir(path), ".new-*.tmp") // mode 0600
	if err != nil {
		return Named(err, "", path)
	}
	return become(temp, path, mode, write)
}

// become writes a new file of mode 0600, and gives it a path.
func become(temp *os.File, path string, mode fs.FileMode, write func(io.Writer) error) (err error) {
	defer os.Remove(temp.Name()) // when it did not get its name
	if err = write(temp); err == nil && mode != 0o600 {
		err = temp.Chmod(mode)
	}
	if cerr := temp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	return Named(err, temp.Name(), path)
}

// Named is an error of a temporary file that was to replace path, with that name: nobody has heard of the other one. temp is "" if it could
// not be made. Other errors stay as they are.
func Named(err error, temp, path string) error {
	switch of := err.(type) { //nolint:errorlint // the text of one that is wrapped has the name already
	case *os.LinkError:
		if of.Old == temp {
			return &fs.PathError{Op: of.Op, Path: path, Err: of.Err}
		}
	case *fs.PathError:
		if of.Path == temp || temp == "" {
			return &fs.PathError{Op: of.Op, Path: path, Err: of.Err}
		}
	}
	return err
}

// WriteText is Write for a text that is at hand.
func WriteText(path string, mode fs.FileMode, text []byte) error {
	return Write(path, mode, func(w io.Writer) error { _, err := w.Write(text); return err })
}

// WriteSynced is WriteText for a file that has to be whole after a loss of power, too, old or new: the disk has the text before that gets its name.
func WriteSynced(path string, mode fs.FileMode, text []byte) error {
	return Write(path, mode, func(w io.Writer) error {
		if _, err := w.Write(text); err != nil {
			return err
		}
		return w.(*os.File).Sync()
	})
}

// Output is Write for a path that a person has named, and does with it what a shell does: it writes into what is not a regular file, such as a device or a
// pipe, and follows a link. A file that exists keeps its owner and its mode, as with Edit; a new one has mode less the umask.
func Output(path string, mode fs.FileMode, write func(io.Writer) error) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return into(path, write)
	}
	if path, err = followed(path); err != nil {
		return err
	}
	if info != nil {
		const all, private = 0o777, 0o600
		return keeping(path, info, private, all, write)
	}
	name, err := tempName(path)
	if err != nil {
		return err
	}
	temp, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return Named(err, name, path)
	}
	const made = 0o600 // it has its mode already
	return become(temp, path, made, write)
}

// into writes into what is there.
func into(path string, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// maxLinks is how many links are followed, as by Linux.
const maxLinks = 40

// followed is where the links lead that a path may be, also if nothing is there yet.
func followed(path string) (string, error) {
	for at, n := path, 0; n < maxLinks; n++ {
		to, err := os.Readlink(at)
		if err != nil { // it is not a link
			return at, nil
		}
		if !filepath.IsAbs(to) {
			folder, err := filepath.EvalSymlinks(filepath.Dir(at)) // which ".." leads out of
			if err != nil {
				return "", err
			}
			to = filepath.Join(folder, to)
		}
		at = to
	}
	return "", &fs.PathError{Op: "open", Path: path, Err: errors.New("there are too many links")}
}

// Edit is WriteSynced for a file that people look after, or for the one that a link leads to: it keeps its owner and group, where this process may, and its mode.
// A new one, one whose mode allows more than most, and one that cannot keep its group gets mode.
func Edit(path string, mode, most fs.FileMode, text []byte) error {
	path, err := followed(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return WriteSynced(path, mode, text)
	}
	if err != nil {
		return err
	}
	return keeping(path, info, mode, most, func(w io.Writer) error {
		if _, err := w.Write(text); err != nil {
			return err
		}
		return w.(*os.File).Sync()
	})
}

// keeping is Write for a file that exists, with what Edit keeps of it.
func keeping(path string, info fs.FileInfo, mode, most fs.FileMode, write func(io.Writer) error) error {
	const private = 0o600 // until it is known whose it is
	return Write(path, private, func(w io.Writer) error {
		file := w.(*os.File)
		group, err := own(file, info)
		if err != nil {
			return err
		}
		if err := write(file); err != nil {
			return err
		}
		if group && info.Mode().Perm()&^most == 0 {
			mode = info.Mode().Perm()
		}
		return file.Chmod(mode)
	})
}

// Place gives the file at from the name to as well, in the place of what has it: a hard link where the file system allows one, else a copy.
// It is for files that nobody writes into again.
func Place(from, to string) error {
	temp, err := tempName(to)
	if err != nil {
		return err
	}
	if os.Link(from, temp) == nil {
		defer os.Remove(temp) // when it did not get its name, or the name was one of the same file
		return Named(os.Rename(temp, to), temp, to)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	return Write(to, info.Mode().Perm(), func(w io.Writer) error { _, err := io.Copy(w, in); return err })
}

// tempName returns a name beside a path that nothing has.
func tempName(path string) (string, error) {
	temp, err := os.CreateTemp(filepath.Dir(path), ".new-*.tmp")
	if err != nil {
		return "", Named(err, "", path)
	}
	temp.Close()
	return temp.Name(), os.Remove(temp.Name())
}
