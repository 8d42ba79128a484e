// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
)

// These are the limits of RuleOrigins. It must read each policy again, because the source does not
// keep the objects of the API.
const (
	originsTimeout = 2 * time.Second
	maxOrigins     = 50 // fewer than the burst of the client
)

// RuleOrigins reads policies from the API. The result maps the ID of each of their rules to the
// rule's place in the object of the API. It reads at most maxOrigins policies, for at most
// originsTimeout, and skips the others. The ID of a rule changes when the rule changes. If a rule
// has changed since the source received the policy, the result has only the rule's new ID. A caller
// that has the old ID does not find the rule.
func (a *API) RuleOrigins(ctx context.Context, policies []policy.Key) map[string]manifest.RuleOrigin {
	ctx, cancel := context.WithTimeout(ctx, originsTimeout)
	defer cancel()
	origins := map[string]manifest.RuleOrigin{}
	reader := manifest.Reader{Rule: func(id string, at manifest.RuleOrigin) { origins[id] = at }}
	for _, key := range policies[:min(len(policies), maxOrigins)] {
		if data, err := a.read(ctx, key); err == nil {
			_, _ = reader.Decode("", data) // the source has reported the problems of the policy
		}
	}
	return origins
}

// read reads the object from which a resource was made, as JSON.
func (a *API) read(ctx context.Context, key policy.Key) ([]byte, error) {
	of, _ := convert.Origin(key)
	kind := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind)
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	objects := a.cfg.Clients.Dynamic.Resource(resource).Namespace(of.Namespace)
	object, err := objects.Get(ctx, of.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return object.MarshalJSON()
}
