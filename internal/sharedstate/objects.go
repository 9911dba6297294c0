package sharedstate

import (
	"context"
	"errors"
)

// Objects is a folder of an object store. Reads see all writes that have been answered.
type Objects interface {
	// Get returns an object and its tag, which is another one after each Put with other content. The error wraps fs.ErrNotExist if there is no such object.
	Get(ctx context.Context, name string) (content []byte, tag string, err error)
	// Put writes an object as a whole if the condition holds, and returns its tag. The error wraps ErrCondition if it does not; after any other one nobody knows
	// whether the object was written.
	Put(ctx context.Context, name string, content []byte, when Condition) (tag string, err error)
	// List returns the names that begin so, sorted.
	List(ctx context.Context, prefix string) ([]string, error)
	// Delete removes an object. One that does not exist is no error.
	Delete(ctx context.Context, name string) error
}

// Condition says when an object is written. The zero value is always.
type Condition struct {
	Absent bool   // it does not exist
	Tag    string // it has this tag
}

// ErrCondition says that an object is not what its condition says.
var ErrCondition = errors.New("the object was written by somebody else")
