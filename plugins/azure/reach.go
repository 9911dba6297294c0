package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/rungci/rung/sdk/instancegroup"
)

// addressesOf are the addresses of a machine's network interfaces.
func (a *azure) addressesOf(ctx context.Context, network *armcompute.NetworkProfile) (out []string, err error) {
	if network == nil {
		return nil, nil
	}
	for _, reference := range network.NetworkInterfaces {
		id, err := arm.ParseResourceID(value(reference.ID))
		if err != nil {
			return nil, fmt.Errorf("the network interface of a machine: %w", err)
		}
		nic, err := do(ctx, a, "the network interface "+id.Name, func(ctx context.Context) (armnetwork.InterfacesClientGetResponse, error) {
			return a.nics.Get(ctx, id.ResourceGroupName, id.Name, nil)
		})
		if errors.Is(err, instancegroup.ErrNotFound) {
			continue // it is not made yet
		}
		if err != nil {
			return nil, err
		}
		for _, c := range configurations(&nic.Interface) {
			out = append(out, value(c.Properties.PrivateIPAddress))
			if c.Properties.PublicIPAddress == nil {
				continue
			}
			id, err := arm.ParseResourceID(value(c.Properties.PublicIPAddress.ID))
			if err != nil {
				return nil, fmt.Errorf("the public address of a machine: %w", err)
			}
			public, err := do(ctx, a, "the public address "+id.Name, func(ctx context.Context) (armnetwork.PublicIPAddressesClientGetResponse, error) {
				return a.public.Get(ctx, id.ResourceGroupName, id.Name, nil)
			})
			if err != nil {
				return nil, err
			}
			if public.Properties != nil {
				out = append(out, value(public.Properties.IPAddress))
			}
		}
	}
	return out, nil
}

// configurations are the addresses of a network interface that have properties.
func configurations(nic *armnetwork.Interface) (out []*armnetwork.InterfaceIPConfiguration) {
	if nic.Properties == nil {
		return nil
	}
	for _, c := range nic.Properties.IPConfigurations {
		if c.Properties != nil {
			out = append(out, c)
		}
	}
	return out
}

// keyComment ends the lines of authorized_keys that are of this plugin, so that one process replaces the key of the one before.
const keyComment = "rung"

// pushed are the machines that this process has put its key on.
type pushed struct {
	mu  sync.Mutex
	all map[string]bool
}

func (p *pushed) has(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[id]
}

func (p *pushed) add(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[string]bool{}
	}
	p.all[id] = true
}

func (p *pushed) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, id)
}

// userName is what a user of Linux can be called.
var userName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)

// letIn puts the key on a machine that was made without it: by another process, or by a scale set. Azure's agent on the machine does that, which takes half a minute.
func (a *azure) letIn(ctx context.Context, id, user string, profile *armcompute.OSProfile, publicKey string, run func(context.Context, armcompute.RunCommandInput) error) error {
	switch {
	case a.settings.UseStaticCredentials || publicKey == "" || a.pushed.has(id) || knows(profile, publicKey):
		return nil
	case !userName.MatchString(user):
		return fmt.Errorf("username of connector_config is %q, which is not a user of Linux", user)
	}
	script := armcompute.RunCommandInput{CommandID: to.Ptr("RunShellScript"), Script: []*string{
		to.Ptr("set -eu"),
		to.Ptr("home=$(getent passwd '" + user + "' | cut -d: -f6)"),
		to.Ptr("group=$(id -g '" + user + "')"),
		to.Ptr("install -d -m 700 -o '" + user + "' -g \"$group\" \"$home/.ssh\""),
		to.Ptr("file=$home/.ssh/authorized_keys"),
		to.Ptr("touch \"$file\""),
		to.Ptr("sed -i '/ " + keyComment + "$/d' \"$file\""),
		to.Ptr("echo '" + publicKey + " " + keyComment + "' >>\"$file\""),
		to.Ptr("chown '" + user + "':\"$group\" \"$file\""),
		to.Ptr("chmod 600 \"$file\""),
	}}
	_, err := do(ctx, a, "putting the key on "+id, func(ctx context.Context) (any, error) { return nil, run(ctx, script) })
	if err == nil {
		a.pushed.add(id)
	}
	return err
}

// knows reports whether a machine was made with a key.
func knows(profile *armcompute.OSProfile, publicKey string) bool {
	profile = cmp.Or(profile, &armcompute.OSProfile{})
	if profile.LinuxConfiguration == nil || profile.LinuxConfiguration.SSH == nil {
		return false
	}
	for _, key := range profile.LinuxConfiguration.SSH.PublicKeys {
		if strings.HasPrefix(strings.TrimSpace(value(key.KeyData)), publicKey) {
			return true
		}
	}
	return false
}
