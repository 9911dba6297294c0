package expr

import "sync"

// What the cache of parsed templates may hold. A parsed template takes a multiple of its text, at worst some 70 times as
// much, so the texts are kept small.
const (
	maxCachedText  = 16 << 10  // bytes of one template
	maxCachedTexts = 256 << 10 // bytes of all templates of one generation
)

// parsed holds the templates that were parsed last: an engine evaluates the same few texts over and over.
var parsed cache

// cache keeps two generations. When the young one is full it becomes the old one, and what was old and not asked for since
// is dropped; so no use needs to be recorded.
type cache struct {
	mu         sync.Mutex
	young, old map[string]*Template
	size       int // bytes of the texts in young
}

func (c *cache) get(text string) *Template {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.young[text]; t != nil {
		return t
	}
	t := c.old[text]
	if t != nil {
		c.add(text, t)
	}
	return t
}

func (c *cache) put(text string, t *Template) {
	if len(text) > maxCachedText {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.young[text] == nil {
		c.add(text, t)
	}
}

func (c *cache) add(text string, t *Template) {
	if c.young == nil || c.size+len(text) > maxCachedTexts {
		c.young, c.old, c.size = map[string]*Template{}, c.young, 0
	}
	c.young[text] = t
	c.size += len(text)
}
