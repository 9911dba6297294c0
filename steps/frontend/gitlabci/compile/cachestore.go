package compile

import (
	"strings"

	"github.com/rungci/rung/steps/catalog/cachekey"
	"github.com/rungci/rung/steps/value"
)

// CacheStore is where caches are that each have an address of their own. It signs these addresses, and has the credentials that the job does not
// get: the job can read the caches that it was compiled to look for, write those that it was compiled to save, and no others.
type CacheStore interface {
	// Get and Put return the address to get a cache from, and the one to send it to. The text of an error is for people who read the job's log.
	Get(key CacheKey) (CacheAddress, error)
	Put(key CacheKey) (CacheAddress, error)
}

// CacheKey is what a cache is kept under.
type CacheKey struct {
	Key    string // clean, or its hash
	Hashed bool
	Text   string // as people know it
}

// CacheAddress takes or gives a cache. It is a secret: whoever has it needs nothing else.
type CacheAddress struct {
	URL string
	// Headers are those that a request to it needs.
	Headers map[string]string
	// MaxSize is how large an archive may be that is sent, in bytes; 0 is any size.
	MaxSize int64
}

// addresses are those to get a cache from, by key.
func (k *keptCache) addresses(c *compiler) map[string]value.Value {
	urls := map[string]value.Value{}
	for _, candidate := range k.candidates {
		signed, err := k.Store.Get(k.named(candidate))
		if err != nil {
			c.note("the cache %s is not looked for: %v", candidate.Raw, err)
			continue
		}
		urls[candidate.Key] = address(c, signed.URL)
	}
	return urls
}

// address is one whose signature lets whoever has it in. What is before that may be read.
func address(c *compiler, text string) value.Value {
	if _, signature, ok := strings.Cut(text, "?"); ok {
		c.secret("CACHE_SIGNATURE", signature)
	}
	return c.text(text)
}

// named is a key as stores know it.
func (k *keptCache) named(candidate cachekey.Candidate) CacheKey {
	text := candidate.Key
	if k.hashed {
		text = candidate.Raw
	}
	return CacheKey{Key: candidate.Key, Hashed: k.hashed, Text: text}
}

// destination gives the address that a cache is sent to; false if there is none.
func (k *keptCache) destination(c *compiler, in inputs) bool {
	signed, err := k.Store.Put(k.named(k.candidates[0]))
	if err != nil {
		c.note("the cache %s is not kept: %v", k.candidates[0].Raw, err)
		return false
	}
	in.add("url", address(c, signed.URL))
	if len(signed.Headers) > 0 {
		headers := map[string]value.Value{}
		for name, text := range signed.Headers {
			headers[name] = c.text(text)
		}
		in.add("headers", value.OfStruct(headers))
	}
	in.number("max_size", signed.MaxSize, 0)
	return true
}
