package github

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/containers"
)

// options are those of `docker create` that mean something here.
type options struct {
	health *containers.Health
	user   string
	env    map[string]string
	limits local.Limits
	// limiting are the options that set limits.
	limiting []string
	// privileged asks for all rights on the kernel.
	privileged bool
	others     []string // as they were written, without their values
	wrong      []string // why options cannot be honored
}

// limitOptions are the options that limit a container, and the limits that they set.
var limitOptions = map[string]string{"--cpus": "cpus", "--memory": "memory", "-m": "memory", "--pids-limit": "pids"}

// refusedOptions are the options that GitHub refuses as well.
var refusedOptions = map[string]string{
	"--network": ownNetwork, "--net": ownNetwork,
	"--entrypoint": "the job's steps are started by the image's own entrypoint",
}

const ownNetwork = "every job has a network of its own, and its services are on it"

// readOptions reads the text of `options:`.
func readOptions(text string) options {
	o := options{env: map[string]string{}}
	all := words(text)
	for i := 0; i < len(all); i++ {
		name, given, has := strings.Cut(all[i], "=")
		if name == "--privileged" { // it has no value of its own
			o.privileged = !has || given == "true"
			continue
		}
		if !has && i+1 < len(all) && !strings.HasPrefix(all[i+1], "-") {
			i++
			given = all[i]
		}
		if !o.take(name, given) {
			o.others = append(o.others, name)
		}
	}
	if o.health != nil && o.health.Command == "" {
		o.health = nil // times alone check nothing
	}
	return o
}

// take takes over one option; false is one that means nothing here.
func (o *options) take(name, text string) bool {
	if limit, is := limitOptions[name]; is {
		if err := o.limits.Set(limit, text); err != nil {
			o.wrong = append(o.wrong, fmt.Sprintf("%s: %v", name, err))
		}
		o.limiting = append(o.limiting, name)
		return true
	}
	if why, refused := refusedOptions[name]; refused {
		o.wrong = append(o.wrong, name+" is not supported: "+why)
		return true
	}
	health, isHealth := strings.CutPrefix(name, "--health-")
	if isHealth && o.health == nil {
		o.health = &containers.Health{}
	}
	var to *time.Duration
	switch {
	case health == "cmd" && isHealth:
		o.health.Command = text
		return true
	case health == "retries" && isHealth:
		n, err := strconv.Atoi(text)
		o.health.Retries = n
		return err == nil
	case health == "interval" && isHealth:
		to = &o.health.Interval
	case health == "timeout" && isHealth:
		to = &o.health.Timeout
	case health == "start-period" && isHealth:
		to = &o.health.StartPeriod
	case name == "--user" || name == "-u":
		o.user = text
		return true
	case name == "--env" || name == "-e":
		name, text, ok := strings.Cut(text, "=")
		o.env[name] = text
		return ok
	default:
		return false
	}
	d, err := time.ParseDuration(text)
	*to = d
	return err == nil
}

// words divides a command line as Docker's is divided: at spaces, with quotes and backslashes.
func words(text string) []string {
	var out []string
	var word strings.Builder
	quote, open := rune(0), false
	escaped := false
	for _, c := range text {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, open = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '"' || c == '\'':
			quote, open = c, true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if open {
				out = append(out, word.String())
				word.Reset()
				open = false
			}
		default:
			word.WriteRune(c)
			open = true
		}
	}
	if open {
		out = append(out, word.String())
	}
	return out
}

// readPort reads a port of a service: "6379", "8080:80", "127.0.0.1:8080:80/tcp". here is 0 where any will do.
func readPort(text string) (inside, here uint16, err error) {
	text, protocol, _ := strings.Cut(text, "/")
	if protocol != "" && protocol != "tcp" {
		return 0, 0, fmt.Errorf("only TCP is published here, not %s", protocol)
	}
	parts := strings.Split(text, ":")
	if len(parts) > 3 {
		return 0, 0, errors.New("it is not a port")
	}
	number := func(text string) uint16 {
		n, parse := strconv.ParseUint(text, 10, 16)
		if parse != nil || n == 0 {
			err = fmt.Errorf("%q is not a port", text)
		}
		return uint16(n)
	}
	inside = number(parts[len(parts)-1])
	if len(parts) > 1 && parts[len(parts)-2] != "" {
		here = number(parts[len(parts)-2])
	}
	return inside, here, err
}
