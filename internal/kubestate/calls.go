package kubestate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/rungci/rung/internal/kube"
	"github.com/rungci/rung/internal/sharedstate"
)

// claimNote is the annotation with the text of the object "lease".
const claimNote = "rung.claim"

func (o *Objects) getSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, o.client.REST.Get().Namespace(o.namespace).Resource("secrets").Name(name).Do(ctx).Into(secret)
}

// writeSecret makes a secret that does not exist, or replaces one that has the version which is given.
func (o *Objects) writeSecret(ctx context.Context, secret *corev1.Secret) (version string, err error) {
	request := o.client.REST.Post()
	if secret.ResourceVersion != "" {
		request = o.client.REST.Put().Name(secret.Name)
	}
	made := &corev1.Secret{}
	err = request.Namespace(o.namespace).Resource("secrets").Body(secret).Do(ctx).Into(made)
	return made.ResourceVersion, conditional(err, secret.ResourceVersion)
}

// conditional is the error of a write for which a version was given, or none.
func conditional(err error, version string) error {
	failed := version == "" && apierrors.IsAlreadyExists(err) || version != "" && (apierrors.IsConflict(err) || kube.IsGone(err))
	if failed {
		return fmt.Errorf("%w: %w", sharedstate.ErrCondition, err)
	}
	return err
}

// remove removes secrets, one after the other. Those that are gone are no error.
func (o *Objects) remove(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := o.client.REST.Delete().Namespace(o.namespace).Resource("secrets").Name(name).Do(ctx).Error(); err != nil && !kube.IsGone(err) {
			return err
		}
	}
	return nil
}

// list has the names and notes of all secrets of the state, without their content.
func (o *Objects) list(ctx context.Context) (all []metav1.PartialObjectMetadata, err error) {
	for next := ""; ; {
		request := o.client.REST.Get().Namespace(o.namespace).Resource("secrets").Param("labelSelector", stateLabel+"="+o.name).Param("limit", strconv.Itoa(page))
		if next != "" {
			request.Param("continue", next)
		}
		found := &metav1.PartialObjectMetadataList{}
		if err := o.described(ctx, request, "PartialObjectMetadataList", found); err != nil {
			return nil, err
		}
		all = append(all, found.Items...)
		if next = found.Continue; next == "" {
			return all, nil
		}
	}
}

// described asks for what describes objects, and not for what they hold.
func (o *Objects) described(ctx context.Context, request *rest.Request, kind string, into any) error {
	answer, err := request.SetHeader("Accept", "application/json;as="+kind+";g=meta.k8s.io;v=v1").Do(ctx).Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, into)
}

// leases is the path of Leases, which are in another group than the client is for.
func (o *Objects) leases() string {
	return "/apis/coordination.k8s.io/v1/namespaces/" + o.namespace + "/leases"
}

func (o *Objects) getLease(ctx context.Context) (text []byte, version string, err error) {
	lease := &coordinationv1.Lease{}
	if err := o.client.REST.Get().AbsPath(o.leases(), o.name).Do(ctx).Into(lease); err != nil {
		return nil, "", err
	}
	return []byte(lease.Annotations[claimNote]), lease.ResourceVersion, nil
}

// putLease writes the text of the lease, and what it says where people and programs look for it.
func (o *Objects) putLease(ctx context.Context, text []byte, version string) (string, error) {
	if !utf8.Valid(text) {
		return "", errors.New("the lease is not a text")
	}
	lease := &coordinationv1.Lease{}
	lease.Name, lease.Namespace, lease.ResourceVersion = o.name, o.namespace, version
	lease.Labels, lease.Annotations = map[string]string{stateLabel: o.name}, map[string]string{claimNote: string(text)}
	if c := claimed(text); c.Lease > 0 {
		now, seconds, holder := metav1.NowMicro(), int32(max(1, c.Lease/time.Second)), c.Name
		if c.Released {
			holder = "" // as others who use Leases say it
		}
		lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now}
	}
	request := o.client.REST.Post().AbsPath(o.leases())
	if version != "" {
		request = o.client.REST.Put().AbsPath(o.leases(), o.name)
	}
	made := &coordinationv1.Lease{}
	err := request.Body(lease).Do(ctx).Into(made)
	return made.ResourceVersion, conditional(err, version)
}
