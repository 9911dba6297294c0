package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/compute/metadata"
	"golang.org/x/crypto/ssh"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/oslogin/v1"

	"github.com/rungci/rung/sdk/instancegroup"
)

const (
	// keyOwner is whom the lines of ssh-keys name that are of this plugin, so that one process replaces the key of the one before.
	keyOwner = "rung"
	// keyTime is how long a key in the metadata is valid; it is renewed when half of that is over. So the key of a process that was killed ends, too.
	keyTime = 24 * time.Hour
	// keyMargin is how long before it expires a key is asked for again.
	keyMargin = keyTime / 4
	// expiryForm is the form of times in ssh-keys.
	expiryForm = "2006-01-02T15:04:05-0700"
	// atOnce bounds how many instances lose their keys at the same time.
	atOnce = 8
)

// keyNote is what a line of ssh-keys says after "google-ssh", by which the guest agent knows when the key expires.
type keyNote struct {
	UserName string `json:"userName"`
	ExpireOn string `json:"expireOn"`
}

// noteOf is the note of a line of ssh-keys; ours is false if the line is not this plugin's.
func noteOf(line string) (note keyNote, ours bool) {
	_, text, found := strings.Cut(line, " google-ssh ")
	ours = found && json.Unmarshal([]byte(text), &note) == nil && note.UserName == keyOwner
	return note, ours
}

// until is when this plugin's key of a user in lines of ssh-keys expires; zero: it is not there.
func until(lines, user, publicKey string) time.Time {
	for line := range strings.Lines(lines) {
		if note, ours := noteOf(strings.TrimSpace(line)); ours && strings.HasPrefix(line, user+":"+publicKey+" ") {
			at, _ := time.Parse(expiryForm, note.ExpireOn)
			return at
		}
	}
	return time.Time{}
}

// item is the value of an item of metadata; empty: there is none.
func item(items []*compute.MetadataItems, key string) string {
	for _, i := range items {
		if i.Key == key && i.Value != nil {
			return *i.Value
		}
	}
	return ""
}

func itemsOf(m *compute.Metadata) []*compute.MetadataItems {
	if m == nil {
		return nil
	}
	return m.Items
}

// set is items with one of them set.
func set(items []*compute.MetadataItems, key, value string) []*compute.MetadataItems {
	out := slices.DeleteFunc(slices.Clone(items), func(i *compute.MetadataItems) bool { return i.Key == key })
	return append(out, &compute.MetadataItems{Key: key, Value: &value})
}

// withKey are the lines of ssh-keys, with one for the user in place of those that this plugin has put there.
func withKey(lines, user, publicKey string, expires time.Time) string {
	out := without(lines, func(string) bool { return true })
	note, _ := json.Marshal(keyNote{UserName: keyOwner, ExpireOn: expires.UTC().Format(expiryForm)})
	return strings.Join(append(out, user+":"+publicKey+" google-ssh "+string(note)), "\n")
}

// without are the lines of ssh-keys but for those of this plugin that are chosen.
func without(lines string, chosen func(line string) bool) (out []string) {
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if _, ours := noteOf(line); line != "" && !(ours && chosen(line)) {
			out = append(out, line)
		}
	}
	return out
}

// metadata is that of an instance: the template's, its labels and what lets the key in.
func (c *cloud) metadata(order instancegroup.Order, template *compute.Metadata) ([]*compute.MetadataItems, error) {
	labels, err := json.Marshal(order.Labels)
	if err != nil {
		return nil, err
	}
	items := set(itemsOf(template), labelsItem, string(labels))
	if item(items, "enable-guest-attributes") == "" || c.RequireHostKeys {
		items = set(items, "enable-guest-attributes", "TRUE")
	}
	switch {
	case c.OSLogin:
		items = set(items, "enable-oslogin", "TRUE")
	case c.settings.UseStaticCredentials || order.PublicKey == "":
	default:
		c.mu.Lock()
		c.key = order.PublicKey
		c.mu.Unlock()
		items = set(items, "enable-oslogin", "FALSE")
		items = set(items, "ssh-keys", withKey(item(items, "ssh-keys"), c.settings.Username, order.PublicKey, c.expiry(order.Name)))
	}
	return items, nil
}

// expiry is when the key of a new instance expires: the same if the call is repeated, which must not ask for something else.
func (c *cloud) expiry(order string) time.Time {
	if at, known := c.expiries.get(order); known && time.Until(at) > keyTime/2 {
		return at
	}
	at := time.Now().Add(keyTime)
	c.expiries.put(order, at)
	return at
}

// Connect implements instancegroup.Connecter.
func (c *cloud) Connect(ctx context.Context, m instancegroup.Machine, publicKey string, info *instancegroup.ConnectInfo) (err error) {
	if info.HostKeys, err = c.keysOf(ctx, m); err != nil {
		return err
	}
	switch {
	case c.settings.UseStaticCredentials || publicKey == "":
		return nil
	case c.OSLogin:
		return c.login.use(ctx, c, publicKey, info)
	}
	expires, err := c.putKey(ctx, m, publicKey)
	if err == nil {
		again := expires.Add(-keyMargin)
		info.Expires = &again
	}
	return err
}

// putKey puts a key into the metadata of an instance that another process has made with its own, or whose key expires. It returns when the key expires.
func (c *cloud) putKey(ctx context.Context, m instancegroup.Machine, publicKey string) (time.Time, error) {
	i, err := do(ctx, c, "the instance "+m.ID, func(ctx context.Context) (*compute.Instance, error) {
		return c.api.Instances.Get(c.Project, m.Zone, m.ID).Context(ctx).Do()
	})
	if err != nil {
		return time.Time{}, err
	}
	c.mu.Lock()
	c.key = publicKey
	c.mu.Unlock()
	lines := item(itemsOf(i.Metadata), "ssh-keys")
	if at := until(lines, c.settings.Username, publicKey); time.Until(at) > keyTime/2 {
		return at, nil
	}
	at := time.Now().Add(keyTime)
	return at, c.setKeys(ctx, m, i.Metadata, withKey(lines, c.settings.Username, publicKey, at))
}

// setKeys sets ssh-keys in the metadata of an instance, if nobody has changed that.
func (c *cloud) setKeys(ctx context.Context, m instancegroup.Machine, now *compute.Metadata, lines string) error {
	body := &compute.Metadata{Items: set(itemsOf(now), "ssh-keys", lines)}
	if now != nil {
		body.Fingerprint = now.Fingerprint
	}
	what := "the key of " + m.ID
	op, err := do(ctx, c, what, func(ctx context.Context) (*compute.Operation, error) {
		op, err := c.api.Instances.SetMetadata(c.Project, m.Zone, m.ID, body).Context(ctx).Do()
		var refused *googleapi.Error
		if errors.As(err, &refused) && refused.Code == http.StatusPreconditionFailed {
			return nil, nil //nolint:nilnil // nothing was begun: somebody has changed it, or the answer to this call was lost
		}
		return op, err
	})
	if err == nil && op == nil {
		err = instancegroup.Transient(retryTime, fmt.Errorf("%s: the metadata has changed meanwhile", what))
	}
	if err == nil {
		_, err = c.finish(ctx, what, op)
	}
	return err
}

// takeKeys takes the key of this process from its instances. Nobody else has it, unless it is the configuration's.
func (c *cloud) takeKeys(ctx context.Context) error {
	c.mu.Lock()
	key := c.key
	c.mu.Unlock()
	if key == "" || len(c.settings.Key) > 0 {
		return nil
	}
	machines, err := c.Machines(ctx)
	if err != nil {
		return err
	}
	errs, room := make([]error, len(machines)), make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for n, m := range machines {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			errs[n] = c.takeKey(ctx, m, key)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// takeKey takes a key from an instance. One that is gone has none.
func (c *cloud) takeKey(ctx context.Context, m instancegroup.Machine, publicKey string) error {
	i, err := do(ctx, c, "the instance "+m.ID, func(ctx context.Context) (*compute.Instance, error) {
		return c.api.Instances.Get(c.Project, m.Zone, m.ID).Context(ctx).Do()
	})
	if err == nil {
		lines := item(itemsOf(i.Metadata), "ssh-keys")
		if until(lines, c.settings.Username, publicKey).IsZero() {
			return nil
		}
		kept := without(lines, func(line string) bool { return strings.HasPrefix(line, c.settings.Username+":"+publicKey+" ") })
		err = c.setKeys(ctx, m, i.Metadata, strings.Join(kept, "\n"))
	}
	if errors.Is(err, instancegroup.ErrNotFound) {
		return nil
	}
	return err
}

// keysOf are the fingerprints of the host keys that the guest agent of an instance has published; nil: it has not.
func (c *cloud) keysOf(ctx context.Context, m instancegroup.Machine) ([]string, error) {
	if known, ok := c.hostKeys.get(m.ID); ok {
		return known, nil
	}
	attributes, err := do(ctx, c, "the host keys of "+m.ID, func(ctx context.Context) (*compute.GuestAttributes, error) {
		return c.api.Instances.GetGuestAttributes(c.Project, m.Zone, m.ID).QueryPath("hostkeys/").Context(ctx).Do()
	})
	var keys []string
	if err == nil && attributes.QueryValue != nil {
		for _, entry := range attributes.QueryValue.Items {
			blob, err := base64.StdEncoding.DecodeString(strings.TrimSpace(entry.Value))
			if err != nil {
				continue
			}
			if key, err := ssh.ParsePublicKey(blob); err == nil && key.Type() == entry.Key {
				keys = append(keys, ssh.FingerprintSHA256(key))
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, err
	case len(keys) > 0:
		c.hostKeys.put(m.ID, keys)
	case c.RequireHostKeys && (err == nil || errors.Is(err, instancegroup.ErrNotFound)):
		return nil, instancegroup.Transient(0, fmt.Errorf(`the instance %s has not published its host keys yet, which "require_host_keys" asks for`, m.ID))
	case c.RequireHostKeys:
		return nil, err
	}
	return keys, nil
}

// login is a key in the OS Login profile of an account.
type login struct {
	account string
	turn    chan struct{} // holds a token while nobody is at it
	key     string        // that was imported
	name    string        // of the key in the profile
	user    string        // of the account on instances
	until   time.Time
}

// loginTime is how long a key of OS Login is valid; it is imported again when half of that is over.
const loginTime = 24 * time.Hour

// openLogin finds out whose OS Login profile is used.
func (c *cloud) openLogin(ctx context.Context) error {
	c.login = login{account: c.OSLoginUser, turn: make(chan struct{}, 1)}
	c.login.turn <- struct{}{}
	if !c.OSLogin || c.login.account != "" {
		return nil
	}
	var err error
	if c.CredentialsFile != "" {
		file, failed := c.credentialsFile()
		c.login.account, err = file.ClientEmail, failed
	} else {
		c.login.account, err = metadata.EmailWithContext(ctx, "default")
	}
	if err == nil && c.login.account == "" {
		err = errors.New("the credentials do not name an account")
	}
	if err != nil {
		return fmt.Errorf(`"os_login" needs the email address of the service account in "os_login_user": %w`, err)
	}
	return nil
}

// use imports a key if it was not, and sets the user of the account.
func (l *login) use(ctx context.Context, c *cloud, publicKey string, info *instancegroup.ConnectInfo) error {
	select {
	case <-l.turn:
		defer func() { l.turn <- struct{}{} }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if l.key != publicKey || time.Until(l.until) < loginTime/2 {
		until := time.Now().Add(loginTime)
		body := &oslogin.SshPublicKey{Key: publicKey, ExpirationTimeUsec: until.UnixMicro()}
		answer, err := do(ctx, c, "the OS Login key of "+l.account, func(ctx context.Context) (*oslogin.ImportSshPublicKeyResponse, error) {
			return c.logins.Users.ImportSshPublicKey("users/"+l.account, body).ProjectId(c.Project).Context(ctx).Do()
		})
		if err != nil {
			return err
		}
		if l.user, l.name = profile(answer.LoginProfile, publicKey); l.user == "" {
			return fmt.Errorf("the OS Login profile of %s has no POSIX account", l.account)
		}
		l.key, l.until = publicKey, until
	}
	expires := l.until
	info.Username, info.Expires = l.user, &expires
	return nil
}

// profile is the user of an OS Login profile, and the name of a key in it.
func profile(p *oslogin.LoginProfile, publicKey string) (user, name string) {
	if p == nil {
		return "", ""
	}
	for _, account := range p.PosixAccounts {
		if user == "" || account.Primary {
			user = account.Username
		}
	}
	for _, fingerprint := range slices.Sorted(maps.Keys(p.SshPublicKeys)) {
		if key := p.SshPublicKeys[fingerprint]; strings.TrimSpace(key.Key) == publicKey {
			name = cmp.Or(key.Name, p.Name+"/sshPublicKeys/"+fingerprint)
		}
	}
	return user, name
}

// Shutdown implements instancegroup.Shutdowner: the key goes from instances and from OS Login, as it is this process's alone.
func (c *cloud) Shutdown(ctx context.Context) error {
	return errors.Join(c.takeKeys(ctx), c.endLogin(ctx))
}

func (c *cloud) endLogin(ctx context.Context) error {
	select {
	case <-c.login.turn:
		defer func() { c.login.turn <- struct{}{} }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if c.login.name == "" || len(c.settings.Key) > 0 {
		return nil
	}
	_, err := do(ctx, c, "removing the OS Login key of "+c.login.account, func(ctx context.Context) (*oslogin.Empty, error) {
		return c.logins.Users.SshPublicKeys.Delete(c.login.name).Context(ctx).Do()
	})
	if errors.Is(err, instancegroup.ErrNotFound) {
		err = nil
	}
	if err == nil {
		c.login.name, c.login.key = "", ""
	}
	return err
}
