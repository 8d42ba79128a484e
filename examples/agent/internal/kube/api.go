// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/datastore/kubernetes"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/pods"
	"github.com/wayleave/wayleave/policy"
)

// Name is the name of the source.
const Name = "kubernetes"

// LabelPodUID is a label that the CNI plugin sets on an endpoint if the endpoint belongs to a pod
// in the Kubernetes API. The value is the UID of the pod. For such an endpoint, policy uses the
// labels that the pod has in the API, and not those of the registered endpoint.
const LabelPodUID = "wayleave.dev/pod-uid"

// Config configures an API. Clients, Node, Rejected and Logger are required.
type Config struct {
	// Clients are clients of the API server.
	Clients *Clients
	// Node is the name of this node.
	Node string
	// Omit names the kinds that are not read.
	Omit []string
	// PodCIDRs means that each pod CIDR of a node becomes a block, so that other nodes get a route
	// to it.
	PodCIDRs bool
	// VXLAN, IPIP and Wireguard mean that nodes get addresses for devices of these kinds, from
	// their pod CIDRs.
	VXLAN, IPIP, Wireguard bool
	// TrustAnnotations means that annotations of pods may set their interface and MAC address.
	TrustAnnotations bool
	// ConfigMap is the NAMESPACE/NAME of a ConfigMap with settings. Empty means none. The function
	// Settings receives the settings for all nodes and those for this node. It is called when both
	// have been read, and again after each change. It is required if ConfigMap is set. The source
	// sends nothing before the first call. So nothing is programmed with the wrong settings.
	ConfigMap string
	Settings  func(all, node []settings.Layer)
	// Report means that faults and progress of the node are written to the API: see package report
	// of datastore/kubernetes.
	Report bool
	// Rejected is called with each problem of an object, whenever the problems of the object
	// change.
	Rejected func(error)
	// Logger for warnings and information.
	Logger *slog.Logger
}

// API connects this node to the Kubernetes API.
type API struct {
	cfg    Config
	source *kubernetes.Source
	relay  *relay
	maps   *configMaps // nil unless Config.ConfigMap is set
	status *status     // nil unless Config.Report is set
	keys   *announcer
	// faulty has the objects with problems. The hooks of the source are called one at a time.
	faulty map[convert.Object]bool
}

// New returns an API, which sends no request yet. Errors: the configuration is invalid.
func New(cfg Config) (*API, error) {
	if cfg.Clients == nil || cfg.Node == "" || cfg.Rejected == nil || cfg.Logger == nil {
		return nil, errors.New("kube: Config.Clients, Node, Rejected and Logger: required")
	}
	if cfg.ConfigMap != "" && cfg.Settings == nil {
		return nil, errors.New("kube: Config.Settings: required with ConfigMap")
	}
	a := &API{
		cfg: cfg, relay: newRelay(), faulty: map[convert.Object]bool{},
		keys: newAnnouncer(cfg.Clients.Client, cfg.Node, cfg.Logger),
	}
	if cfg.ConfigMap != "" {
		a.maps = newConfigMaps(cfg.Clients.Client, cfg.ConfigMap, cfg.Node, cfg.Settings, func(err error) {
			cfg.Logger.Warn("settings cannot be read; the last known ones stay", "source", Name, "err", err)
		})
		a.relay.ready = a.maps.loaded
	}
	hooks := kubernetes.Hooks{Problems: a.report, Deleted: a.deleted}
	if cfg.Report {
		var err error
		if a.status, err = newStatus(cfg, a); err != nil {
			return nil, err
		}
		hooks = a.status.hooks(hooks)
	}
	var err error
	a.source, err = kubernetes.New(kubernetes.Config{
		Client: cfg.Clients.Client, Dynamic: cfg.Clients.Dynamic, Node: cfg.Node, Omit: cfg.Omit,
		Converter: convert.Converter{
			TrustAnnotations: cfg.TrustAnnotations, PodCIDRs: cfg.PodCIDRs, PodCIDRTunnels: cfg.VXLAN,
			PodCIDRIPIP: cfg.IPIP, PodCIDRWireguard: cfg.Wireguard,
		},
		Hooks: hooks, Logger: cfg.Logger,
	})
	return a, err
}

// Run reads the API until ctx is done, and then returns nil. Before you call Run, call Attach for
// all pods that already have an interface.
func (a *API) Run(ctx context.Context) error {
	parts := []func(context.Context) error{
		func(ctx context.Context) error { return a.source.Run(ctx, a.relay) }, a.keys.run,
	}
	if a.maps != nil {
		parts = append(parts, a.maps.run) // the source sends nothing until the ConfigMaps have been read
	}
	if a.status != nil {
		parts = append(parts, a.status.reporter.Run)
	}
	return pipeline.Together(ctx, parts...)
}

// Follow writes the progress of a pipeline to the API until ctx is done, if Config.Report is set.
// Cancel ctx before the pipeline ends.
func (a *API) Follow(ctx context.Context, p *pipeline.Pipeline) {
	if a.status != nil {
		a.status.follow(ctx, p)
	}
}

// Absent reports to the API that the calculation graph rejects a resource. It does nothing unless
// Config.Report is set.
func (a *API) Absent(key policy.Key, err error) {
	if a.status != nil {
		a.status.reporter.Rejected(key, err)
	}
}

// Doubted reports to the API that a policy is enforced although Wayleave does not understand some
// fields of its rules. The parameter doubt lists these fields; nil means that all fields are now
// understood. Doubted does nothing unless Config.Report is set.
func (a *API) Doubted(key policy.Key, doubt *policy.DoubtError) {
	if a.status != nil {
		a.status.reporter.Doubt(key, doubt)
	}
}

// Source returns the source of the objects for the pipelines. A pipeline is the part of the agent
// that programs the kernel. Call Run of the source once for each pipeline. Before the call for the
// next pipeline, the previous call must have returned.
func (a *API) Source() datastore.Source { return a.relay }

// Attach records the interface and addresses of a pod of this node. The pod's labels and profiles
// come from the API. Errors: those of kubernetes.Source.
func (a *API) Attach(e *policy.WorkloadEndpoint, uid string) error {
	return a.source.Attach(refOf(e.Key(), uid), convert.Attachment{
		Interface: e.Interface, MAC: e.MAC, Addresses: e.Addresses,
	})
}

// Detach records that the interface of a pod was removed.
func (a *API) Detach(key policy.Key, uid string) { a.source.Detach(refOf(key, uid)) }

func refOf(key policy.Key, uid string) pods.Ref {
	return pods.Ref{Namespace: key.Namespace, Name: key.Name, UID: types.UID(uid)}
}

// Barrier waits until the pipeline has all changes that were made before the call: see Barrier of
// kubernetes.Source.
func (a *API) Barrier(ctx context.Context) error { return a.source.Barrier(ctx) }

// report logs the problems of an object.
func (a *API) report(object convert.Object, problems []error) {
	object.UID = ""
	if len(problems) == 0 {
		if a.faulty[object] {
			delete(a.faulty, object)
			a.cfg.Logger.Info("no longer rejected", "source", Name, "object", object.String())
		}
		return
	}
	a.faulty[object] = true
	for _, err := range problems {
		a.cfg.Logger.Error("rejected", "source", Name, "object", object.String(), "err", err)
		a.cfg.Rejected(err)
	}
}

func (a *API) deleted(object convert.Object) { a.report(object, nil) }

// reason returns the text of an error without the URL of the request. The URL differs for each kind
// and attempt.
func reason(err error) string {
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}
	return err.Error()
}

// maxFaulty is the maximum number of faulty objects in State.
const maxFaulty = 100

// State returns the state of each kind, and up to maxFaulty faulty objects. The command "agent
// status" shows them.
func (a *API) State() api.Kubernetes {
	status := a.source.Status()
	s := api.Kubernetes{Server: a.cfg.Clients.Server, InSync: status.InSync, FaultyObjects: status.Faulty}
	for _, k := range status.Kinds {
		kind := api.KubernetesKind{
			Kind: k.Kind, State: string(k.State), Objects: k.Objects, Revision: k.Revision, Since: k.Since,
		}
		if k.Err != nil {
			kind.Error = k.Err.Error()
		}
		s.Kinds = append(s.Kinds, kind)
	}
	for object, problem := range a.source.Faulty() {
		s.Faulty = append(s.Faulty, api.FaultyObject{Object: object.String(), Problem: problem})
	}
	slices.SortFunc(s.Faulty, func(a, b api.FaultyObject) int { return strings.Compare(a.Object, b.Object) })
	s.Faulty = s.Faulty[:min(len(s.Faulty), maxFaulty)]
	return s
}

// Status returns the status of each kind.
func (a *API) Status() kubernetes.Status { return a.source.Status() }

// Problem returns the kinds and settings that cannot be read at the moment, with the reason. It
// returns "" if all can be read. Kinds with the same reason are listed together.
func (a *API) Problem() string {
	kinds := map[string][]string{}
	for _, k := range a.source.Status().Kinds {
		if k.Err != nil {
			text := reason(k.Err)
			kinds[text] = append(kinds[text], k.Kind)
		}
	}
	var parts []string
	if a.maps != nil {
		if problem := a.maps.problem(); problem != "" {
			parts = append(parts, problem)
		}
	}
	for _, cause := range slices.Sorted(maps.Keys(kinds)) {
		list := kinds[cause]
		text := strings.Join(list[:min(len(list), 3)], ", ")
		if more := len(list) - 3; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		parts = append(parts, text+": "+cause)
	}
	return strings.Join(parts, "; ")
}
