// Package kubestate keeps shared state in a namespace of Kubernetes, whose API server makes an object once, and replaces one only if it is as its version says.
//
//	Lease   NAME            the object "lease": its text is an annotation, and who holds it is in its spec, where `kubectl get lease` shows it
//	Secret  NAME.log.7      each other object, here log/7. It is sealed anyway; secrets have rights of their own, and may be encrypted at rest
//	Secret  NAME.log.7.ID.1 the rest of an object that is larger than a secret can be: it is there before the secret that names it
package kubestate

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rungci/rung/internal/kube"
	"github.com/rungci/rung/internal/sharedstate"
)

const (
	// MaxState bounds all values of a state, in bytes: with its log and a snapshot that is being replaced it takes six times that of etcd, which has 2 GiB for the
	// whole cluster if nobody has said more.
	MaxState = 16 << 20
	// MaxObject bounds an object, in bytes.
	MaxObject = 24 << 20
	// PartSize is how much of an object a secret has, in bytes. The API server takes 1 MiB, and etcd's limit of a request is 1.5 MiB.
	PartSize = 960 << 10
	// DefaultName is what the objects' names begin with.
	DefaultName = "rung"
	maxName     = 63 // of the value of a label
)

const (
	stateLabel = "rung.state" // on all objects: the state's name
	partLabel  = "rung.part"  // on what is not the first secret of an object: its ID
	partsNote  = "rung.parts" // on the first secret: the ID, and the number of the others
	contentKey = "content"
	// page is how many objects an answer lists.
	page = 500
	// strayAge is how long parts are left alone which no secret names: longer than the API server works at a request, which may be about to name them.
	strayAge = time.Hour
)

var (
	validName   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	validObject = regexp.MustCompile(`^[a-z0-9]+(/[a-z0-9]+)*$`)
)

// Options are those of New.
type Options struct {
	Access kube.Access
	// Env are variables of the environment in which KUBECONFIG is looked for.
	Env []string
	// Namespace is where the objects are; it must exist.
	Namespace string
	// Name begins the names of objects, and is that of the Lease; "" is DefaultName. A slash is written as a dot.
	Name string
}

// Objects are those of a namespace. Its methods are safe for concurrent use.
type Objects struct {
	client          *kube.Client
	namespace, name string
	strayAge        time.Duration
}

// New finds the cluster. It makes no request.
func New(o Options) (*Objects, error) {
	name := cmp.Or(strings.ReplaceAll(strings.Trim(o.Name, "/"), "/", "."), DefaultName)
	if len(name) > maxName || !validName.MatchString(name) {
		return nil, fmt.Errorf("%q cannot begin the names of Kubernetes' objects: use lower-case letters, digits, dashes and dots, %d at most", o.Name, maxName)
	}
	o.Access.Apart = true                              // a lease is lost by waiting
	client, err := kube.Connect(o.Access, o.Env, 1, 0) // who has the state tries again
	if err != nil {
		return nil, err
	}
	return &Objects{client: client, namespace: o.Namespace, name: name, strayAge: strayAge}, nil
}

// Lease is the name of the Lease.
func (o *Objects) Lease() string { return o.name }

// secret is the name of an object's first secret.
func (o *Objects) secret(name string) (string, error) {
	if !validObject.MatchString(name) {
		return "", fmt.Errorf("%q cannot be the name of an object", name)
	}
	return o.name + "." + strings.ReplaceAll(name, "/", "."), nil
}

// Get implements sharedstate.Objects.
func (o *Objects) Get(ctx context.Context, name string) ([]byte, string, error) {
	if name == sharedstate.LeaseName {
		text, tag, err := o.getLease(ctx)
		return text, tag, o.wrong("reading", name, err)
	}
	first, err := o.secret(name)
	if err != nil {
		return nil, "", err
	}
	for before := ""; ; {
		head, err := o.getSecret(ctx, first)
		if err != nil {
			return nil, "", o.wrong("reading", name, err)
		}
		content, err := o.whole(ctx, head)
		switch {
		case !kube.IsGone(err):
			return content, head.ResourceVersion, o.wrong("reading", name, err)
		case before == head.ResourceVersion:
			return nil, "", fmt.Errorf("reading %s: a part of it was removed from the namespace %s: %s", name, o.namespace, err.Error()) // which is not that it does not exist
		}
		before = head.ResourceVersion // it may have been removed meanwhile, or replaced
	}
}

// whole is the content of an object whose first secret is given.
func (o *Objects) whole(ctx context.Context, head *corev1.Secret) ([]byte, error) {
	content := head.Data[contentKey]
	for _, name := range partsOf(head) {
		part, err := o.getSecret(ctx, name)
		if err != nil {
			return nil, err
		}
		content = append(content, part.Data[contentKey]...)
	}
	return content, nil
}

// partsOf are the names of an object's other secrets.
func partsOf(head metav1.Object) (names []string) {
	var id string
	var n int
	_, _ = fmt.Sscan(head.GetAnnotations()[partsNote], &id, &n)
	for i := range min(n, MaxObject/PartSize+1) {
		names = append(names, fmt.Sprintf("%s.%s.%d", head.GetName(), id, i+1))
	}
	return names
}

// Put implements sharedstate.Objects.
func (o *Objects) Put(ctx context.Context, name string, content []byte, when sharedstate.Condition) (string, error) {
	write := func(tag string) (string, error) { return o.putLease(ctx, content, tag) }
	if name != sharedstate.LeaseName {
		write = func(tag string) (string, error) { return o.putSecrets(ctx, name, content, tag) }
	}
	for {
		tag := when.Tag
		if !when.Absent && tag == "" {
			var err error
			if _, tag, err = o.Get(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
		}
		tag, err := write(tag)
		if err = o.wrong("writing", name, err); when == (sharedstate.Condition{}) && errors.Is(err, sharedstate.ErrCondition) {
			continue
		}
		return tag, err
	}
}

// putSecrets writes an object: all parts, and then the secret that names them.
func (o *Objects) putSecrets(ctx context.Context, name string, content []byte, tag string) (string, error) {
	first, err := o.secret(name)
	if err != nil {
		return "", err
	}
	if len(content) > MaxObject {
		return "", fmt.Errorf("it has %d bytes, and in Kubernetes %d are possible; keep the state in a bucket ([state_storage.s3])", len(content), MaxObject)
	}
	head := &corev1.Secret{Data: map[string][]byte{contentKey: content[:min(len(content), PartSize)]}}
	head.Name, head.Namespace, head.ResourceVersion = first, o.namespace, tag
	head.Labels = map[string]string{stateLabel: o.name}
	if len(content) <= PartSize {
		return o.writeSecret(ctx, head)
	}
	id := strings.ToLower(rand.Text())
	head.Annotations = map[string]string{partsNote: fmt.Sprint(id, " ", (len(content)-1)/PartSize)}
	parts := partsOf(head)
	for i, part := range parts {
		from := (i + 1) * PartSize
		secret := &corev1.Secret{Data: map[string][]byte{contentKey: content[from:min(len(content), from+PartSize)]}}
		secret.Name, secret.Namespace = part, o.namespace
		secret.Labels = map[string]string{stateLabel: o.name, partLabel: id}
		if _, err := o.writeSecret(ctx, secret); err != nil && !errors.Is(err, sharedstate.ErrCondition) { // it is there: the library asks again where an answer was lost
			return "", err
		}
	}
	version, err := o.writeSecret(ctx, head)
	if errors.Is(err, sharedstate.ErrCondition) { // nothing names them
		err = errors.Join(err, o.remove(ctx, parts...))
	}
	return version, err
}

// List implements sharedstate.Objects. It removes what writers that were killed have left.
func (o *Objects) List(ctx context.Context, prefix string) ([]string, error) {
	all, err := o.list(ctx)
	if err != nil {
		return nil, o.wrong("listing", prefix, err)
	}
	var names []string
	var last time.Time // by the API server's clock
	named := map[string]bool{}
	for i := range all {
		it := &all[i]
		if last.Before(it.CreationTimestamp.Time) {
			last = it.CreationTimestamp.Time
		}
		if it.Labels[partLabel] != "" {
			continue
		}
		for _, part := range partsOf(it) {
			named[part] = true
		}
		if name := strings.ReplaceAll(strings.TrimPrefix(it.Name, o.name+"."), ".", "/"); strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	for i := range all {
		if it := &all[i]; it.Labels[partLabel] != "" && !named[it.Name] && last.Sub(it.CreationTimestamp.Time) > o.strayAge {
			if err := o.remove(ctx, it.Name); err != nil {
				return nil, o.wrong("removing", it.Name, err)
			}
		}
	}
	if strings.HasPrefix(sharedstate.LeaseName, prefix) {
		switch _, _, err := o.getLease(ctx); {
		case err == nil:
			names = append(names, sharedstate.LeaseName)
		case !kube.IsGone(err):
			return nil, o.wrong("listing", prefix, err)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Delete implements sharedstate.Objects.
func (o *Objects) Delete(ctx context.Context, name string) error {
	if name == sharedstate.LeaseName {
		err := o.client.REST.Delete().AbsPath(o.leases(), o.name).Do(ctx).Error()
		if kube.IsGone(err) {
			err = nil
		}
		return o.wrong("removing", name, err)
	}
	first, err := o.secret(name)
	if err != nil {
		return err
	}
	head := &metav1.PartialObjectMetadata{}
	err = o.described(ctx, o.client.REST.Get().Namespace(o.namespace).Resource("secrets").Name(first), "PartialObjectMetadata", head)
	if kube.IsGone(err) {
		return nil
	}
	if err == nil {
		err = o.remove(ctx, append([]string{first}, partsOf(head)...)...)
	}
	return o.wrong("removing", name, err)
}

// wrong is an error of the API server about an object; nil if there is none.
func (o *Objects) wrong(doing, name string, err error) error {
	if err == nil {
		return nil
	}
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		err = fmt.Errorf("%w; the rights that are needed are in deploy/kubernetes/state.yaml", err)
	case doing == "reading" && kube.IsGone(err):
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return fmt.Errorf("%s %s in the namespace %s of the Kubernetes cluster at %s: %w", doing, name, o.namespace, o.client.Name, err)
}

// claimed is what a text of the lease says; empty if it is no claim.
func claimed(text []byte) (c sharedstate.Claim) {
	_ = json.Unmarshal(text, &c) // who reads it says what is wrong
	return c
}
