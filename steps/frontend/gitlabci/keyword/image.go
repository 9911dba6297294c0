package keyword

import (
	"strings"
	"unicode"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
)

var (
	imageKeys   = []string{"name", "entrypoint", "pull_policy", "docker", "kubernetes", "ports"}
	serviceKeys = []string{"name", "entrypoint", "pull_policy", "docker", "kubernetes", "alias", "command", "variables", "ports"}
)

// imageReader reads `image:` and `services:`.
type imageReader struct {
	*values
	variableReader
}

// image reads `image:`.
func (r imageReader) image(n config.Node) *Image {
	image := Image{Node: n}
	if n.Kind() == yamlsource.String {
		image.Name = r.filled(n, "image")
		return &image
	}
	r.ports(n, "image")
	for key, v := range r.fields(n, "image", imageKeys) {
		r.imageField(&image, "image", key, v)
	}
	r.imageName(n, "image")
	return &image
}

// services reads `services:`.
func (r imageReader) services(n config.Node) []Service {
	if n.Kind() != yamlsource.Sequence {
		hint := "write a list"
		if n.Kind() == yamlsource.String {
			hint = "put brackets around it: [" + shorten(n.Text()) + "]"
		}
		r.report(n, hint, "`services` must be a list of images, not %s", n.Kind())
		return nil
	}
	out := make([]Service, 0, n.Len())
	for _, it := range n.Items() {
		s := Service{Image: Image{Node: it}}
		switch it.Kind() {
		case yamlsource.String:
			s.Name = r.filled(it, "services")
		case yamlsource.Mapping:
			r.service(it, &s)
		case yamlsource.Sequence:
			r.report(it, "write the items into the list itself; a `!reference` can replace the whole list", "a service must be a string or a map, not %s", it.Kind())
			continue
		default:
			r.report(it, "write the name of an image", "a service must be a string or a map, not %s", it.Kind())
			continue
		}
		out = append(out, s)
	}
	return out
}

func (r imageReader) service(n config.Node, s *Service) {
	r.ports(n, "services")
	for key, v := range r.fields(n, "services", serviceKeys) {
		switch key {
		case "alias":
			s.Aliases = aliases(r.filled(v, "services:alias"))
		case "command":
			s.Command = r.texts(v, "services:command")
		case "variables":
			s.Variables = r.variables(v, "services:variables", plainVariable)
		default:
			r.imageField(&s.Image, "services", key, v)
		}
	}
	r.imageName(n, "services")
}

// aliases are the names of a service, with spaces or commas between them.
func aliases(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' || unicode.IsSpace(c) })
}

func (r imageReader) imageName(n config.Node, name string) {
	if n.Kind() == yamlsource.Mapping && n.Get("name").IsNull() {
		r.report(n, "add `name:` with the image", "`%s` has no name", name)
	}
}

// imageField reads what images of jobs and of services have in common.
func (r imageReader) imageField(image *Image, of, key string, v config.Node) {
	name := of + ":" + key
	switch key {
	case "name":
		image.Name = r.filled(v, name)
	case "entrypoint":
		image.Entrypoint = r.texts(v, name)
	case "pull_policy":
		image.PullPolicies = r.choices(v, name, "always", "if-not-present", "never")
		if v.Kind() == yamlsource.Sequence && v.Len() == 0 {
			r.report(v, "name a policy, or delete it", "`%s` is empty", name)
		}
	case "docker":
		for key, v := range r.fields(v, name, []string{"platform", "user"}) {
			if key == "platform" {
				image.Platform = r.filled(v, name+":platform")
			} else {
				image.User = r.filled(v, name+":user")
			}
		}
	case "kubernetes":
		for _, v := range r.fields(v, name, []string{"user"}) {
			if _, ok := number(v); !ok && v.Kind() != yamlsource.String {
				r.report(v, `write a user such as 1000 or "1000:1000"`, "`%s:user` must be a string or a whole number, not %s", name, v.Kind())
			} else if image.User == "" {
				image.User = scalar(v)
			}
		}
	}
}

// ports refuses `ports:`, as GitLab does: it is for the file of the web terminal.
func (r imageReader) ports(n config.Node, name string) {
	if key, v := n.Entry("ports"); !v.IsNull() {
		r.report(key, "delete it: a job can reach the ports of its services anyway", "`%s` cannot have `ports` in a pipeline: only web terminals (.gitlab-webide.yml) can", name)
	}
}
