// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
)

// otherVersionsError is the error for a kind that the server has, but not in the requested version.
type otherVersionsError struct {
	resource schema.GroupVersionResource // as requested
	versions []string                    // of the server
}

// Error implements error.
func (e *otherVersionsError) Error() string {
	return fmt.Sprintf("the server has %s only in versions %s, not in %s",
		e.resource.GroupResource(), strings.Join(e.versions, ", "), e.resource.Version)
}

// maxAnswerAge is how long a response about an API version is cached, for its other kinds.
const maxAnswerAge = 10 * time.Second

// discoveryCache reports which kinds the server has. It caches the responses of discovery for a
// short time.
type discoveryCache struct {
	discovery discovery.DiscoveryInterface
	maxAge    time.Duration // of an answer
	mu        sync.Mutex
	answers   map[schema.GroupVersion]answer
	groups    *metav1.APIGroupList // read at groupsAt; nil if not known
	groupsAt  time.Time
	// next is the time of the next discovery of the kinds that are not served. Their readers wait
	// for the same time, so they share the responses.
	next time.Time
}

// pause returns the time until the next discovery of the kinds that are not served. After that, the
// next one is due after the interval and up to half of it at random.
func (v *discoveryCache) pause(interval time.Duration) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	if !v.next.After(now) {
		v.next = now.Add(wait.Jitter(interval, 0.5))
	}
	return v.next.Sub(now)
}

// answer is the server's response about one API version: the kinds that it has of it.
type answer struct {
	resources []string
	// others are the other versions of the group that the server has.
	others []string
	err    error
	at     time.Time
}

// serves reports whether the server has a kind. An error means that this is unknown, or that the
// server has the kind only in versions that cannot be read. Requests of client-go's discovery take
// no context; when ctx is done, no further one is sent.
//
// With cached, a response may be up to maxAge old. Set it only for a kind of which no object has
// been sent. If a version has just replaced another, an old response has neither, and the kind
// would count as not served.
func (v *discoveryCache) serves(ctx context.Context, resource schema.GroupVersionResource, cached bool) (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	gv := resource.GroupVersion()
	since := time.Now()
	if cached {
		since = since.Add(-v.maxAge)
	}
	a := v.answer(ctx, gv, since)
	if a.err != nil || slices.Contains(a.resources, resource.Resource) {
		return a.err == nil, a.err
	}
	for _, other := range a.others {
		o := v.answer(ctx, schema.GroupVersion{Group: gv.Group, Version: other}, since)
		if o.err != nil {
			return false, o.err
		}
		if slices.Contains(o.resources, resource.Resource) {
			return false, &otherVersionsError{resource, a.others}
		}
	}
	return false, nil
}

// answer returns the response about an API version. It is a cached one if that was received after
// since.
func (v *discoveryCache) answer(ctx context.Context, gv schema.GroupVersion, since time.Time) answer {
	if err := ctx.Err(); err != nil {
		return answer{err: err}
	}
	if a, ok := v.answers[gv]; ok && a.at.After(since) {
		return a
	}
	if v.answers == nil {
		v.answers = map[schema.GroupVersion]answer{}
	}
	a := v.query(ctx, gv, since)
	a.at = time.Now()
	v.answers[gv] = a
	return a
}

// query sends the requests for the answer about an API version. Its list of groups is one that was
// read after since.
func (v *discoveryCache) query(ctx context.Context, gv schema.GroupVersion, since time.Time) (a answer) {
	list, err := v.discovery.ServerResourcesForGroupVersion(gv.String())
	switch {
	case err == nil:
		for _, r := range list.APIResources {
			a.resources = append(a.resources, r.Name)
		}
		return a
	case !apierrors.IsNotFound(err):
		return answer{err: err}
	case ctx.Err() != nil:
		return answer{err: ctx.Err()}
	}
	if v.groups == nil || v.groupsAt.Before(since) {
		groups, err := v.discovery.ServerGroups()
		if err != nil {
			return answer{err: err}
		}
		v.groups, v.groupsAt = groups, time.Now()
	}
	at := slices.IndexFunc(v.groups.Groups, func(g metav1.APIGroup) bool { return g.Name == gv.Group })
	if at < 0 {
		return a
	}
	for _, other := range v.groups.Groups[at].Versions {
		if other.Version != gv.Version {
			a.others = append(a.others, other.Version)
		}
	}
	return a
}

// warnOfFormerKinds logs a warning for each kind that the server has of those that
// ClusterNetworkPolicy has replaced. They are not read.
func (s *Source) warnOfFormerKinds(ctx context.Context) {
	version := schema.GroupVersion{Group: "policy.networking.k8s.io", Version: "v1alpha1"}
	for _, name := range []string{"adminnetworkpolicies", "baselineadminnetworkpolicies"} {
		resource := version.WithResource(name)
		kind := resource.GroupResource().String()
		switch has, err := s.hasKind(ctx, resource); {
		case has:
			s.cfg.Logger.Warn("the server has a kind that is not read: its policies have no effect here, use "+
				clusterNetworkPolicy, "kind", kind)
		case err != nil && ctx.Err() == nil:
			s.cfg.Logger.Warn("the server may have policies that are not read: listing its kinds failed",
				"kind", kind, "err", err)
		}
	}
}

// hasKind reports whether the server has a kind, in any version. If a request fails, it tries again
// until ctx is done. But if the server forbids the request, it returns that error: more requests
// would get the same response.
func (s *Source) hasKind(ctx context.Context, resource schema.GroupVersionResource) (bool, error) {
	for backoff := newBackoff(); ; {
		has, err := s.discovery.serves(ctx, resource, true)
		var other *otherVersionsError
		switch {
		case errors.As(err, &other):
			return true, nil
		case err == nil, apierrors.IsForbidden(err):
			return has, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(backoff.Step()):
		}
	}
}
