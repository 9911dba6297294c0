package config

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// The values of keys that are not in the file, or not positive.
const (
	DefaultCheckInterval         = 3 * time.Second
	DefaultShutdownTimeout       = 30 * time.Second
	DefaultConnectionMaxAge      = 15 * time.Minute
	DefaultSessionTimeout        = 30 * time.Minute
	DefaultOutputLimit           = 4 << 20
	DefaultUnhealthyRequests     = 3
	DefaultUnhealthyInterval     = time.Hour
	DefaultFinalUpdateRetries    = 10
	DefaultUploadTimeout         = time.Hour
	DefaultResponseHeaderTimeout = 10 * time.Minute
	DefaultSlotCgroupTemplate    = "gitlab-runner/slot-${slot}"
	DefaultServicesTimeout       = 30 * time.Second
	DefaultDriverTimeout         = time.Hour
	DefaultGracefulKill          = 10 * time.Minute
	DefaultForceKill             = 10 * time.Second
	DefaultAcquireTimeout        = 15 * time.Minute
)

// complete fills in what the file does not say.
func (c *Config) complete(getenv func(string) string) {
	atLeast(&c.CheckInterval, DefaultCheckInterval)
	atLeast(&c.ShutdownTimeout, DefaultShutdownTimeout)
	atLeast(&c.ConnectionMaxAge, DefaultConnectionMaxAge)
	atLeast(&c.SessionServer.SessionTimeout, DefaultSessionTimeout)
	c.RunAs(c.User)
	for i := range c.Runners {
		r := &c.Runners[i]
		r.unset = cmp.Or(unset(r.URL, getenv), unset(r.Token, getenv))
		r.URL, r.Token = os.Expand(r.URL, getenv), os.Expand(r.Token, getenv)
		r.complete()
		r.completeFleet(c.Machine)
		if len(c.Labels) > 0 {
			labels := map[string]string{}
			for _, from := range []map[string]string{c.Labels, r.Labels} {
				for name, value := range from {
					labels[name] = value
				}
			}
			r.Labels = labels
		}
	}
}

func (r *Runner) complete() {
	if r.TokenExpiresAt.Year() <= 1 {
		r.TokenExpiresAt = time.Time{}
	}
	if r.TokenObtainedAt.Year() <= 1 {
		r.TokenObtainedAt = time.Time{}
	}
	atLeast(&r.OutputLimit, DefaultOutputLimit)
	atLeast(&r.RequestConcurrency, 1)
	atLeast(&r.UnhealthyRequestsLimit, DefaultUnhealthyRequests)
	atLeast(&r.UnhealthyInterval, DefaultUnhealthyInterval)
	atLeast(&r.FinalUpdateRetryLimit, DefaultFinalUpdateRetries)
	atLeast(&r.Artifact.UploadTimeout, DefaultUploadTimeout)
	atLeast(&r.Artifact.ResponseHeaderTimeout, DefaultResponseHeaderTimeout)
	r.SlotCgroupTemplate = cmp.Or(r.SlotCgroupTemplate, DefaultSlotCgroupTemplate)
	if d := r.Docker; d != nil {
		if d.WaitForServicesTimeout == 0 {
			d.WaitForServicesTimeout = DefaultServicesTimeout
		}
		if len(d.PullPolicy) == 0 {
			d.PullPolicy = []string{"always"}
		}
		d.ServiceSlotCgroupTemplate = cmp.Or(d.ServiceSlotCgroupTemplate, r.SlotCgroupTemplate)
	}
	if s := r.SSH; s != nil {
		s.Port = cmp.Or(s.Port, "22")
	}
	if p := r.Provider; p != nil {
		atLeast(&p.AcquireTimeout, DefaultAcquireTimeout)
		for i := range p.Hosts {
			p.Hosts[i].Slots = cmp.Or(p.Hosts[i].Slots, 1)
		}
		if p.Name == "" && p.File != "" {
			name, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(p.File), "provider-plugin-"), ".")
			p.Name = name
		}
	}
	if p := r.Plugin; p != nil && p.Name == "" {
		file := filepath.Base(p.File)
		p.Name = strings.TrimPrefix(strings.TrimSuffix(file, filepath.Ext(file)), "executor-plugin-")
	}
	if c := r.Custom; c != nil {
		atLeast(&c.ConfigExecTimeout, DefaultDriverTimeout)
		atLeast(&c.PrepareExecTimeout, DefaultDriverTimeout)
		atLeast(&c.CleanupExecTimeout, DefaultDriverTimeout)
		atLeast(&c.GracefulKillTimeout, DefaultGracefulKill)
		atLeast(&c.ForceKillTimeout, DefaultForceKill)
	}
}

// atLeast sets what is not positive to a default.
func atLeast[T int | int64 | time.Duration](value *T, otherwise T) {
	if *value <= 0 {
		*value = otherwise
	}
}

// Short is what people may see of the entry's token, as gitlab-runner shows it: its first characters, without the prefix of its kind.
func (r *Runner) Short() string { return Short(r.Token) }

// CacheNamespace is the part of this runner in the names of its caches in a store: its token without what all tokens of its kind begin with, cut off
// as gitlab-runner does it (helpers/shorten_token.go).
func (r *Runner) CacheNamespace() string {
	token := r.Token
	for _, prefix := range tokenPrefixes {
		token = prefix.ReplaceAllString(token, "")
	}
	return token[:min(len(token), 9)]
}

var tokenPrefixes = []*regexp.Regexp{
	regexp.MustCompile(`^glrt-(?:t[123]_)?|^t[123]_|^glrtr-`), regexp.MustCompile(`^glcbt-`), regexp.MustCompile(`^GR[0-9A-Fa-f]{7}`),
}

// shown is how many characters of a token people may see.
const shown = 8

// Short is what people may see of a token.
func Short(token string) string {
	for _, prefix := range []string{"glrt-", "glrtr-", "GR1348941"} {
		if rest, ok := strings.CutPrefix(token, prefix); ok {
			// glrt-t1_… names the kind of runner before the random part
			if kind, random, ok := strings.Cut(rest, "_"); ok && len(kind) == 2 && kind[0] == 't' {
				rest = random
			}
			token = rest
			break
		}
	}
	if len(token) <= 2*shown {
		return strings.Repeat("*", min(len(token), shown)) // most of it would be seen
	}
	return token[:shown]
}
