package engine

import "context"

// Networks are the calls about networks.
type Networks struct{ client *Client }

// hidden is the option of a bridge that keeps the engine's machine off its network.
const hidden = "com.docker.network.bridge.inhibit_ipv4"

// Create makes a network of the engine's machine and returns its id. An internal one leads nowhere else, not even to that machine.
func (c Networks) Create(ctx context.Context, name string, internal bool, labels map[string]string) (id string, err error) {
	body := struct {
		Name, Driver string
		Internal     bool `json:",omitempty"`
		Labels       map[string]string
		Options      map[string]string `json:",omitempty"`
	}{name, "bridge", internal, labels, nil}
	if internal {
		body.Options = map[string]string{hidden: "true"}
	}
	var made identified
	err = c.client.post(ctx, "/networks/create", nil, body, &made)
	return made.ID, err
}

// List returns the ids of the networks with a label.
func (c Networks) List(ctx context.Context, label, value string) ([]string, error) {
	var found []identified
	err := c.client.get(ctx, "/networks", labelled(label, value), &found)
	return ids(found), err
}

// Leave takes a container off a network.
func (c Networks) Leave(ctx context.Context, network, container string) error {
	body := struct {
		Container string
		Force     bool
	}{container, true}
	return c.client.post(ctx, "/networks/"+network+"/disconnect", nil, body, nil)
}

// Remove removes a network. The error is http.StatusForbidden while it is in use.
func (c Networks) Remove(ctx context.Context, id string) error {
	return c.client.remove(ctx, "/networks/"+id, nil)
}
