// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/wayleave/wayleave/kubernetes/convert"
)

// Config configures a Source. Client and Dynamic are required.
type Config struct {
	// Client reads Pods, Namespaces, ServiceAccounts, Nodes and EndpointSlices, and queries which
	// kinds the server has. The Source stores no copies of these objects.
	Client kubernetes.Interface
	// Informers are the caller's informers. If set, the Source reads from them the kinds that it
	// would otherwise read with the field Client. Run starts the informers that do not run yet.
	// When Run ends, it stops the informers that it started. If the informers have your own
	// transform, it must keep all fields that Transform keeps. nil means that there are no
	// informers.
	Informers informers.SharedInformerFactory
	// Dynamic reads NetworkPolicies, ClusterNetworkPolicies and the kinds of Calico, with all their
	// fields. If this version of the package does not know a field of a rule, the effect depends on
	// the action of the rule. With Allow or Log, the rule matches nothing. With any other action,
	// it denies every packet that reaches it. If the unknown field is outside of the rules, the
	// object is left out.
	Dynamic dynamic.Interface
	// Node is the name of this node, as in spec.nodeName of its pods. Only pods of this node can be
	// attached. If Node is empty, no pod can be attached.
	Node string
	// Converter converts the objects. Its field Attachment must be nil, because pods are attached
	// with Source.Attach.
	Converter convert.Converter
	// Omit names the kinds that are not read, with names from Kinds. The default is to read all
	// kinds. In a large cluster, omit the kinds that no policy and no route uses. docs/fleet.md
	// says which ones are expensive.
	Omit []string
	// Hooks receive the problems of objects, and deletions. By default, nothing receives them.
	Hooks Hooks
	// Logger receives warnings and information. Nil discards them.
	Logger *slog.Logger
}

// Hooks are functions that a Source calls before it sends the resources of an object. Each may be
// nil. The Source calls them one at a time. They must not call the Source. The methods of
// report.Reporter, which writes problems to the Kubernetes API, have the same signatures.
type Hooks struct {
	// Problems is called when the problems of an object change. It receives the object and all its
	// problems, each a *convert.Error. The list is empty once the object has no problems any more.
	// For kinds other than Pod, Problems is also called whenever the object's resources change,
	// even if its problems stay the same.
	Problems func(object convert.Object, problems []error)
	// Converted is called instead of Problems for a ClusterNetworkPolicy, because its status has
	// conditions to write. It is called for every generation of the object, with or without
	// problems. The default is to call Problems.
	Converted func(object convert.Object, generation int64, problems []error)
	// Deleted is called for each object that the server no longer has. The parameter object has no
	// UID. For a Pod, Deleted is called only if the Pod had problems.
	Deleted func(object convert.Object)
}

func (c Config) withDefaults() Config {
	c.Omit = slices.Clone(c.Omit)
	if c.Hooks.Problems == nil {
		c.Hooks.Problems = func(convert.Object, []error) {}
	}
	if c.Hooks.Converted == nil {
		c.Hooks.Converted = func(object convert.Object, _ int64, problems []error) {
			c.Hooks.Problems(object, problems)
		}
	}
	if c.Hooks.Deleted == nil {
		c.Hooks.Deleted = func(convert.Object) {}
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Client == nil {
		errs = append(errs, errors.New("kubernetes: Config.Client: required"))
	}
	if c.Dynamic == nil {
		errs = append(errs, errors.New("kubernetes: Config.Dynamic: required"))
	}
	if c.Converter.Attachment != nil {
		errs = append(errs, errors.New("kubernetes: Config.Converter.Attachment: must be nil"))
	}
	for _, kind := range c.Omit {
		if !slices.Contains(Kinds(), kind) {
			errs = append(errs, fmt.Errorf("kubernetes: Config.Omit: no kind %q", kind))
		}
	}
	return errors.Join(errs...)
}
