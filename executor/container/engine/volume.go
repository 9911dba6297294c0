package engine

import (
	"context"
	"encoding/json"
	"net/url"
	"time"
)

// Volumes are the calls about volumes.
type Volumes struct{ client *Client }

// Create makes a volume; one that already exists stays.
func (c Volumes) Create(ctx context.Context, name string, labels map[string]string) error {
	body := struct {
		Name   string
		Labels map[string]string
	}{name, labels}
	return c.client.post(ctx, "/volumes/create", nil, body, nil)
}

// List returns the names of the volumes with a label.
func (c Volumes) List(ctx context.Context, label, value string) (names []string, err error) {
	var found struct{ Volumes []struct{ Name string } }
	err = c.client.get(ctx, "/volumes", labelled(label, value), &found)
	for _, f := range found.Volumes {
		names = append(names, f.Name)
	}
	return names, err
}

// Volume is what is known of a volume.
type Volume struct {
	Name      string
	CreatedAt time.Time
	Labels    map[string]string
}

// Labelled returns the volumes with a label, whatever its value.
func (c Volumes) Labelled(ctx context.Context, label string) ([]Volume, error) {
	filters, _ := json.Marshal(map[string][]string{"label": {label}}) // strings alone cannot fail
	var found struct{ Volumes []Volume }
	err := c.client.get(ctx, "/volumes", url.Values{"filters": {string(filters)}}, &found)
	return found.Volumes, err
}

// Remove removes a volume. The error is http.StatusConflict while it is in use.
func (c Volumes) Remove(ctx context.Context, name string) error {
	return c.client.remove(ctx, "/volumes/"+name, url.Values{"force": {"1"}})
}
