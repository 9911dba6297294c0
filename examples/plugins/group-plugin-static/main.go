// The program group-plugin-static is an instance group of hosts that are there already: one is taken from the list for an instance, and goes back with it.
package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/rungci/rung/sdk/instancegroup"
)

// list is that of the configuration: {"hosts": {"NAME": "ADDRESS:PORT"}}.
type list struct {
	Hosts    map[string]string `json:"hosts"`
	mu       sync.Mutex
	settings instancegroup.Settings
	taken    map[string]instancegroup.Order // by host
}

func main() { instancegroup.MainCloud(&list{}, instancegroup.VersionInfo{Name: "static"}) }

func (l *list) Open(_ context.Context, _ instancegroup.Logger, settings instancegroup.Settings) (instancegroup.ProviderInfo, error) {
	if len(l.Hosts) == 0 {
		return instancegroup.ProviderInfo{}, &instancegroup.OptionError{Pointer: "/hosts", Err: fmt.Errorf(`the option "hosts" lists no hosts, such as {"one": "10.0.0.1:22"}`)}
	}
	l.settings, l.taken = settings, map[string]instancegroup.Order{}
	return instancegroup.ProviderInfo{ID: "static/" + settings.Owner, MaxSize: len(l.Hosts)}, instancegroup.Load(settings, "taken", &l.taken)
}

func (l *list) Machines(context.Context) (out []instancegroup.Machine, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for host, order := range l.taken {
		is := instancegroup.Instance{ID: host + "/" + order.Name, State: instancegroup.StateRunning, Labels: order.Labels}
		out = append(out, instancegroup.Machine{Instance: is, Addresses: []string{l.Hosts[host]}, Probe: l.Hosts[host]})
	}
	return out, nil
}

func (l *list) Create(_ context.Context, order instancegroup.Order) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for host := range l.Hosts {
		if _, used := l.taken[host]; !used {
			l.taken[host] = order
			return host + "/" + order.Name, instancegroup.Save(l.settings, "taken", l.taken)
		}
	}
	return "", &instancegroup.Error{Kind: instancegroup.ErrQuota, Message: fmt.Sprintf("all %d hosts of the list are in use", len(l.Hosts))}
}

func (l *list) Delete(_ context.Context, id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if host, name, _ := strings.Cut(id, "/"); l.taken[host].Name == name {
		delete(l.taken, host)
	}
	return instancegroup.Save(l.settings, "taken", l.taken)
}
