// Package pluginoption says which option of a plugin is wrong, by a JSON pointer (RFC 6901): on both sides of the wire, so that who wrote the configuration
// is shown the line.
package pluginoption

import "strings"

// Error is what is wrong with one option.
type Error struct {
	// Pointer says which: "/hosts/one"; empty: the options as a whole.
	Pointer string
	// Key is the key of the object at Pointer that should not be there; empty: the value at Pointer is meant.
	Key string
	Err error
}

// Error implements error: it is the text of Err, which need not name the option again.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error below.
func (e *Error) Unwrap() error { return e.Err }

// Path are the keys and the numbers of elements on the way to the option.
func (e *Error) Path() []string {
	path := Split(e.Pointer)
	if e.Key != "" {
		path = append(path, e.Key)
	}
	return path
}

// Join makes a pointer of keys and numbers of elements.
func Join(path ...string) string {
	var b strings.Builder
	for _, token := range path {
		b.WriteString("/" + strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1"))
	}
	return b.String()
}

// Split takes a pointer apart. What is not one is taken for the name of an option.
func Split(pointer string) []string {
	if pointer == "" {
		return nil
	}
	path := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, token := range path {
		path[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	}
	return path
}

// Errors are all that is wrong with the options of a plugin.
type Errors struct {
	// Of is the plugin, for messages: `the executor plugin "wrap"`.
	Of  string
	All []*Error
}

// Error implements error.
func (e *Errors) Error() string {
	texts := make([]string, len(e.All))
	for i, one := range e.All {
		texts[i] = one.Error()
		if where := Join(one.Path()...); one.Key == "" && where != "" {
			texts[i] = "at '" + where + "': " + texts[i]
		}
	}
	return "the options of " + e.Of + " are wrong: " + strings.Join(texts, "; ")
}
