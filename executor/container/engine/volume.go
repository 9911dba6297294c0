package engine

import (
	"context"
	"encoding/json"
	"net/url"
	"time"
)

// Volumes are the calls about volumes.
type Volumes struct{ client *Client }

// VolumeDriver is what makes volumes; the zero value is the engine's own.
type VolumeDriver struct {
	Driver     string            `json:",omitempty"`
	DriverOpts map[string]string `json:",omitempty"`
}

// Create makes a volume; one that already exists stays.
func (c Volumes) Create(ctx context.Context, name string, labels map[string]string, by VolumeDriver) error {
	body := struct {
		Name   string
		Labels map[string]string
		VolumeDriver
	}{name, labels, by}
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

// Usage is what images and volumes take of the engine's disk.
type Usage struct {
	Images  []ListedImage
	Volumes []struct {
		Name      string
		UsageData struct {
			Size     int64 // bytes; -1 is not known
			RefCount int64 // containers that have it
		}
	}
}

// Usage returns what images and volumes take of the engine's disk. The engine counts files for that, which takes time.
func (c *Client) Usage(ctx context.Context) (*Usage, error) {
	found := &Usage{}
	return found, c.get(ctx, "/system/df", url.Values{"type": {"image", "volume"}}, found)
}
