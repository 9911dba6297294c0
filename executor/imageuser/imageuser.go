// Package imageuser finds out who the user of an image is: by name or number, with or without a group, as container engines read it. Names are
// those of the image's own files.
package imageuser

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxFile bounds the files of users and groups of an image, in bytes.
const MaxFile = 4 << 20

// User is a user of an image.
type User struct {
	UID, GID int
	// Home and Groups, the others that the user is in, are those that Complete has found.
	Home   string
	Groups []int

	own bool // no group was asked for
}

// UnknownError says that an image has no such user or group.
type UnknownError struct {
	What string // "user" or "group"
	Name string
	Cut  bool // the file is longer than MaxFile
}

func (e *UnknownError) Error() string {
	text := fmt.Sprintf("no %s %q", e.What, e.Name)
	if e.Cut {
		text += fmt.Sprintf(" in the first %d MiB of its file, and no more is read", MaxFile>>20)
	}
	return text
}

// Find finds the user that spec names ("", "name", "1000", "name:group", "1000:1000"). read returns the content of a file of the image, nil
// where there is none. The error is an *UnknownError for a name that the image does not know.
func Find(spec string, read func(file string) ([]byte, error)) (User, error) {
	var u User
	cut := false
	whole := read
	read = func(file string) ([]byte, error) {
		text, err := whole(file)
		cut = len(text) >= MaxFile
		return text, err
	}
	user, group, hasGroup := strings.Cut(spec, ":")
	if user == "" && group == "" {
		return u, nil
	}
	number, numberErr := strconv.Atoi(user)
	switch {
	case user == "":
	case numberErr == nil && hasGroup && isNumber(group): // nothing to look up
		u.UID = number
	default:
		line, err := lookUp(read, "/etc/passwd", func(f []string) bool {
			return len(f) > 3 && (f[0] == user || numberErr == nil && f[2] == user)
		})
		if err != nil {
			return u, err
		}
		switch {
		case line != nil:
			u.UID, _ = strconv.Atoi(line[2])
			u.GID, _ = strconv.Atoi(line[3])
		case user == "":
		case numberErr == nil:
			u.UID = number
		default:
			return u, &UnknownError{"user", user, cut}
		}
	}
	if !hasGroup || group == "" {
		u.own = true
		return u, nil
	}
	var err error
	if u.GID, err = strconv.Atoi(group); err == nil {
		return u, nil
	}
	line, err := lookUp(read, "/etc/group", func(f []string) bool { return len(f) > 2 && f[0] == group })
	if err != nil {
		return u, err
	}
	if line == nil {
		return u, &UnknownError{"group", group, cut}
	}
	u.GID, _ = strconv.Atoi(line[2])
	return u, nil
}

// Complete finds the user's home, and the groups that name the user unless one was asked for.
func (u *User) Complete(read func(file string) ([]byte, error)) error {
	line, err := lookUp(read, "/etc/passwd", func(f []string) bool { return len(f) > 5 && f[2] == strconv.Itoa(u.UID) })
	if err != nil || line == nil {
		return err
	}
	name := line[0]
	u.Home = line[5]
	if !u.own && u.UID != 0 {
		return nil
	}
	_, err = lookUp(read, "/etc/group", func(f []string) bool {
		if len(f) > 3 && slices.Contains(strings.Split(f[3], ","), name) {
			if gid, err := strconv.Atoi(f[2]); err == nil {
				u.Groups = append(u.Groups, gid)
			}
		}
		return false
	})
	return err
}

func isNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

// lookUp returns the fields of the first line of a file that fits; nil when there is none, or no such file.
func lookUp(read func(string) ([]byte, error), file string, fits func([]string) bool) ([]string, error) {
	text, err := read(file)
	if err != nil {
		return nil, fmt.Errorf("reading %s of the image: %w", file, err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, MaxFile)
	for lines.Scan() {
		if fields := strings.Split(lines.Text(), ":"); fits(fields) {
			return fields, nil
		}
	}
	return nil, nil
}
