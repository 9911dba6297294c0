package engine

import (
	"context"
	"encoding/json"
	"net/url"
	"time"
)

// CreateNetwork makes a network of the engine's machine and returns its id. An internal one leads nowhere else.
func (c *Client) CreateNetwork(ctx context.Context, name string, internal bool, labels map[string]string) (id string, err error) {
	body := struct {
		Name, Driver string
		Internal     bool `json:",omitempty"`
		Labels       map[string]string
	}{name, "bridge", internal, labels}
	var made identified
	err = c.post(ctx, "/networks/create", nil, body, &made)
	return made.ID, err
}

// ListNetworks returns the ids of the networks with a label.
func (c *Client) ListNetworks(ctx context.Context, label, value string) ([]string, error) {
	var found []identified
	err := c.get(ctx, "/networks", labelled(label, value), &found)
	return ids(found), err
}

// LeaveNetwork takes a container off a network.
func (c *Client) LeaveNetwork(ctx context.Context, network, container string) error {
	body := struct {
		Container string
		Force     bool
	}{container, true}
	return c.post(ctx, "/networks/"+network+"/disconnect", nil, body, nil)
}

// RemoveNetwork removes a network. The error is http.StatusForbidden while it is in use.
func (c *Client) RemoveNetwork(ctx context.Context, id string) error {
	return c.remove(ctx, "/networks/"+id, nil)
}

// CreateVolume makes a volume; one that already exists stays.
func (c *Client) CreateVolume(ctx context.Context, name string, labels map[string]string) error {
	body := struct {
		Name   string
		Labels map[string]string
	}{name, labels}
	return c.post(ctx, "/volumes/create", nil, body, nil)
}

// ListVolumes returns the names of the volumes with a label.
func (c *Client) ListVolumes(ctx context.Context, label, value string) (names []string, err error) {
	var found struct{ Volumes []struct{ Name string } }
	err = c.get(ctx, "/volumes", labelled(label, value), &found)
	for _, f := range found.Volumes {
		names = append(names, f.Name)
	}
	return names, err
}

// Volume is what is known of a volume.
type Volume struct {
	Name      string
	CreatedAt time.Time
}

// LabelledVolumes returns the volumes with a label, whatever its value.
func LabelledVolumes(ctx context.Context, c *Client, label string) ([]Volume, error) {
	filters, _ := json.Marshal(map[string][]string{"label": {label}}) // strings alone cannot fail
	var found struct{ Volumes []Volume }
	err := c.get(ctx, "/volumes", url.Values{"filters": {string(filters)}}, &found)
	return found.Volumes, err
}

// RemoveVolume removes a volume. The error is http.StatusConflict while it is in use.
func (c *Client) RemoveVolume(ctx context.Context, name string) error {
	return c.remove(ctx, "/volumes/"+name, url.Values{"force": {"1"}})
}
