package github

import "sync"

// What the caches of parsed texts may hold, in bytes of text.
const (
	maxCachedText  = 16 << 10  // of one
	maxCachedTexts = 256 << 10 // of all of one generation
)

// What was parsed last: an engine evaluates the same few texts over and over.
var (
	expressions cache[*Expr]
	templates   cache[*Template]
)

// cache keeps two generations. When the young one is full it becomes the old one, and what was old and not asked for since is dropped; so
// no use needs to be recorded.
type cache[T any] struct {
	mu         sync.Mutex
	young, old map[string]T
	size       int // bytes of the texts in young
}

// get returns what was made of the text, or makes it. What could not be made is not kept.
func (c *cache[T]) get(text string, make func() (T, error)) (T, error) {
	c.mu.Lock()
	made, found := c.young[text]
	if !found {
		if made, found = c.old[text]; found {
			c.add(text, made)
		}
	}
	c.mu.Unlock()
	if found {
		return made, nil
	}
	made, err := make()
	if err == nil && len(text) <= maxCachedText {
		c.mu.Lock()
		c.add(text, made)
		c.mu.Unlock()
	}
	return made, err
}

func (c *cache[T]) add(text string, made T) {
	if c.young == nil || c.size+len(text) > maxCachedTexts {
		c.young, c.old, c.size = map[string]T{}, c.young, 0
	}
	c.young[text] = made
	c.size += len(text)
}
