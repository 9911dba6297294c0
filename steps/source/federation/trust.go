package federation

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/signature"
	"github.com/rungci/rung/steps/source"
)

// demand is one signed_by: how many of which keys must have signed.
type demand struct {
	entry     *entry
	keys      []signature.PublicKey
	threshold int
}

// trust is what all files demand of a location, by its name and by the place that it leads to.
func (c *Config) trust(at *source.Location, r route) (trust source.Trust, err error) {
	var demands []*demand
	for _, f := range c.files {
		for _, p := range []place{r.name, r.place} {
			if e := f.entry(p, "deny"); e != nil && e.deny {
				return source.Trust{}, denied(at.Name, e)
			}
			if e := f.entry(p, "pinned"); e != nil && e.pinned {
				trust.Pinned = true
			}
			e := f.entry(p, "signed_by")
			if e == nil || len(e.signedBy) == 0 {
				continue
			}
			d, err := c.demand(e)
			if err != nil {
				return source.Trust{}, err
			}
			if !slices.Contains(demands, d) {
				demands = append(demands, d)
			}
		}
	}
	if len(demands) > 0 {
		trust.Verify = func(envelope []byte, digest string) ([]string, error) { return verify(demands, envelope, digest) }
	}
	return trust, nil
}

func denied(what string, e *entry) error {
	why := "it is denied by " + e.at("deny")
	if e.reason != "" {
		why += ": " + e.reason
	}
	return &source.DeniedError{What: what, Why: why, Hint: "use another source, or ask whoever wrote the file"}
}

// demand reads the keys of an entry, once.
func (c *Config) demand(e *entry) (*demand, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.demands[e]; d != nil {
		return d, nil
	}
	d := &demand{entry: e, threshold: max(e.threshold, 1)}
	for _, path := range e.signedBy {
		text, err := c.readFile(e, "signed_by", path, signature.MaxKeyFile)
		if err != nil {
			return nil, err
		}
		key, err := signature.ParsePublicKey(text)
		if err != nil {
			return nil, diag.List{e.wrong("signed_by", "", "%s is not a public key: %v", path, err)}
		}
		if slices.ContainsFunc(d.keys, func(k signature.PublicKey) bool { return k.ID() == key.ID() }) {
			return nil, diag.List{e.wrong("signed_by", "name each key once", "%s is a key that already exists", path)}
		}
		d.keys = append(d.keys, key)
	}
	c.demands[e] = d
	return d, nil
}

// verify holds an envelope against all demands, and returns whose signatures count.
func verify(demands []*demand, envelope []byte, digest string) (keyIDs []string, err error) {
	e, err := signature.ParseEnvelope(envelope)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, d := range demands {
		checks, err := e.Verify(d.keys, d.threshold)
		if err != nil {
			failed = append(failed, fmt.Errorf("%w (%s)", err, d.entry.at("signed_by")))
			continue
		}
		for _, check := range checks {
			if check.Status == signature.Valid && !slices.Contains(keyIDs, check.Key.ID()) {
				keyIDs = append(keyIDs, check.Key.ID())
			}
		}
	}
	if len(failed) > 0 {
		return nil, errors.Join(failed...)
	}
	if err := e.CoversComponent(digest); err != nil {
		return nil, err
	}
	slices.Sort(keyIDs)
	return keyIDs, nil
}

// Explanation is where a reference leads, for people. It holds no secrets.
type Explanation struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// MappedBy is the file and line of the entry that maps the name; "" where nothing does.
	MappedBy string `json:"mapped_by,omitempty"`
	// Credentials says where they are from, not what they are.
	Credentials string `json:"credentials"`
	SSHKey      string `json:"ssh_key,omitempty"`
	Proxy       string `json:"proxy,omitempty"`
	PlainHTTP   bool   `json:"plain_http,omitempty"`
	Submodules  bool   `json:"submodules,omitempty"`
	// Denied is why it must not be used; "" where it may.
	Denied   string   `json:"denied,omitempty"`
	Pinned   bool     `json:"pinned,omitempty"`
	SignedBy []Signed `json:"signed_by,omitempty"`
	// Refresh is how long a name is believed, as text; "" is the usual time.
	Refresh string `json:"refresh,omitempty"`
}

// Signed is one demand of signatures.
type Signed struct {
	Keys      []string `json:"keys"` // their IDs
	Threshold int      `json:"threshold"`
	By        string   `json:"by"` // file and line
}

// Explain says where a location leads. It reads the keys that are demanded, and no passwords.
func (c *Config) Explain(at *source.Location) (*Explanation, error) {
	r, err := c.route(at)
	if err != nil {
		return nil, err
	}
	x := &Explanation{Name: at.Name, URL: source.WithoutUserinfo(r.url), PlainHTTP: r.plainHTTP, Credentials: "the usual places"}
	if r.mapped != nil {
		x.MappedBy = r.mapped.at("replace")
	}
	if r.place.host == "" {
		x.Credentials = "none"
	}
	if e := c.userEntry(r.place, credentialKeys...); e != nil {
		x.Credentials = e.describeSecret()
	}
	if e := c.userEntry(r.place, "ssh_key"); e != nil {
		x.SSHKey = e.file.absolute(e.sshKey, c.opts.Home)
	}
	if e := c.userEntry(r.place, "proxy"); e != nil {
		x.Proxy = source.WithoutUserinfo(e.proxy)
	}
	if e := c.userEntry(r.place, "plain_http"); e != nil && e.plainHTTP {
		x.PlainHTTP = true
	}
	for _, p := range []place{r.name, r.place} {
		if e := c.entry(p, "submodules"); e != nil && e.submodules {
			x.Submodules = true
		}
	}
	if e := c.entry(r.name, "refresh"); e != nil {
		x.Refresh = e.refresh.String()
	}
	return x, c.explainTrust(at, r, x)
}

func (c *Config) explainTrust(at *source.Location, r route, x *Explanation) error {
	trust, err := c.trust(at, r)
	var no *source.DeniedError
	if errors.As(err, &no) {
		x.Denied = no.Why
		return nil
	}
	if err != nil {
		return err
	}
	x.Pinned = trust.Pinned
	var seen []*entry
	for _, f := range c.files {
		for _, p := range []place{r.name, r.place} {
			e := f.entry(p, "signed_by")
			if e == nil || len(e.signedBy) == 0 || slices.Contains(seen, e) {
				continue
			}
			seen = append(seen, e)
			d, err := c.demand(e)
			if err != nil {
				return err
			}
			s := Signed{Threshold: d.threshold, By: e.at("signed_by")}
			for _, key := range d.keys {
				s.Keys = append(s.Keys, key.ID())
			}
			x.SignedBy = append(x.SignedBy, s)
		}
	}
	return nil
}

// describeSecret says where an entry's password is.
func (e *entry) describeSecret() string {
	user := ""
	if e.username != "" {
		user = " of the user " + e.username
	}
	for _, key := range secretKeys {
		if !e.has(key) {
			continue
		}
		what, where, _ := strings.Cut(key, "_")
		value := *e.field(key).(*string)
		if where == "env" {
			return fmt.Sprintf("the %s%s in the environment variable %s (%s)", what, user, value, e.at(key))
		}
		return fmt.Sprintf("the %s%s in the file %s (%s)", what, user, value, e.at(key))
	}
	return "none"
}
