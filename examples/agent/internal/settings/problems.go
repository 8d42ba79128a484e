// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/datastore/kubernetes"
	"github.com/wayleave/wayleave/policy"
)

// maxSocket is the kernel's limit for the path of a Unix socket in bytes, without the final zero.
const maxSocket = 107

// Texts of several problems.
const (
	wantInterfaces = "want names of interfaces, separated by commas"
	nodesOmitted   = "and kubernetes-omit names nodes: remove nodes from kubernetes-omit"
)

// maxApplyInterval is the maximum of ApplyInterval. With a longer interval, pods and policies would
// wait too long.
const maxApplyInterval = time.Minute

// problems returns the errors of the settings, by key.
func (s Settings) problems() map[string]error {
	found := map[string]error{}
	if s.Node == "" {
		found["node"] = errors.New("required: give the name of this node")
	} else if err := nodeProblem(s.Node); err != nil {
		found["node"] = err
	}
	if (s.EtcdUsername == "") != (s.EtcdPasswordFile == "") {
		found["etcd-username"] = errors.New("set both etcd-username and etcd-password-file, or neither")
	}
	if (s.EtcdCertFile == "") != (s.EtcdKeyFile == "") {
		found["etcd-cert-file"] = errors.New("set both etcd-cert-file and etcd-key-file, or neither")
	}
	maps.Copy(found, s.kubernetesProblems())
	maps.Copy(found, s.wireguardProblems())
	if s.Table == "" {
		found["table"] = errors.New("required: give a name such as wayleave")
	} else if _, err := render.New(render.Config{Table: s.Table}); err != nil {
		found["table"] = fmt.Errorf("%q is not a valid name of an nftables table: want a letter, then letters, "+
			"digits, /, -, _ or dots, and no keyword of nft", s.Table)
	}
	if s.InterfacePrefix == "" {
		found["interface-prefix"] = errors.New("required: without a prefix, every interface would belong to a " +
			"workload: give one such as way")
	} else if _, err := render.New(render.Config{InterfacePrefix: s.InterfacePrefix}); err != nil {
		found["interface-prefix"] = fmt.Errorf("%q cannot be the prefix of an interface name: want up to %d letters, "+
			"digits, -, _ or dots", s.InterfacePrefix, ruleset.IfnameSize-2)
	}
	if err := s.bridgesProblem(); err != nil && found["interface-prefix"] == nil {
		found["bridges"] = err
	}
	if err := s.protocolProblem(); err != nil {
		found["route-protocol"] = err
	}
	if len(s.Socket) > maxSocket {
		found["socket"] = fmt.Errorf("longer than %d bytes: want a shorter path", maxSocket)
	}
	if err := addressProblem(s.HTTPAddress); err != nil {
		found["http-address"] = err
	}
	if s.HealthTimeout <= 0 {
		found["health-timeout"] = fmt.Errorf("want more than 0s, not %s", s.HealthTimeout)
	}
	if s.ApplyInterval < 0 || s.ApplyInterval > maxApplyInterval {
		found["apply-interval"] = fmt.Errorf("want 0s to %s, not %s", maxApplyInterval, s.ApplyInterval)
	}
	if s.ApplyBurst < 1 {
		found["apply-burst"] = fmt.Errorf("want 1 or more, not %d", s.ApplyBurst)
	}
	if s.ResyncInterval < 0 {
		found["resync-interval"] = fmt.Errorf("want 0s for never, or more, not %s", s.ResyncInterval)
	}
	if s.VerdictLogGroup < -1 || s.VerdictLogGroup > math.MaxUint16 {
		found["verdict-log-group"] = fmt.Errorf("want 0 to 65535, or -1 for none, not %d", s.VerdictLogGroup)
	}
	if s.Flows && s.VerdictLogGroup < 0 {
		found["flows"] = errors.New("needs verdict-log-group: set it to an nflog group from 0 to 65535")
	}
	if err := s.flowtableProblem(); err != nil {
		found["flowtable"] = err
	}
	if !s.Flowtable && s.FlowtableUplinks != "" {
		found["flowtable-uplinks"] = errors.New("has no effect without flowtable: set flowtable, too")
	}
	for _, name := range s.Uplinks() {
		if !ruleset.ValidIfname(name) {
			found["flowtable-uplinks"] = fmt.Errorf("%q is not an interface name: %s", name, wantInterfaces)
		}
	}
	if hostActions()[s.EndpointToHost] == "" {
		found["endpoint-to-host"] = fmt.Errorf("want drop, accept or return, not %q", s.EndpointToHost)
	}
	if !slices.Contains([]string{"auto", "true", "false"}, s.TunnelsFromNodes) {
		found["tunnels-from-nodes"] = fmt.Errorf("want auto, true or false, not %q", s.TunnelsFromNodes)
	}
	if s.RecordLimit < 1 {
		found["record-limit"] = fmt.Errorf("want 1 or more, not %d", s.RecordLimit)
	}
	return found
}

// flowtableProblem returns why the fast path cannot be used.
func (s Settings) flowtableProblem() error {
	switch {
	case s.Flowtable && s.Bridges != "":
		return errors.New("cannot be combined with bridges: set only one of them")
	case s.Flowtable && s.Wireguard:
		return errors.New("cannot be combined with wireguard: connections that began unencrypted would stay so in " +
			"the flowtable: set only one of them")
	}
	return nil
}

// kubernetesProblems returns the errors of the settings of the Kubernetes API, by key.
func (s Settings) kubernetesProblems() map[string]error {
	found := map[string]error{}
	switch {
	case s.Kubeconfig != "" && s.InCluster:
		found["in-cluster"] = errors.New("cannot be combined with kubeconfig: set one of them")
	case s.ReadsKubernetes() && s.Etcd != "":
		found["etcd"] = errors.New("choose etcd or the Kubernetes API as the source")
	}
	if s.KubernetesContext != "" && s.Kubeconfig == "" {
		found["kubernetes-context"] = errors.New("is a context of the file kubeconfig, which is not set: " +
			"set kubeconfig, too")
	}
	if s.KubernetesConfig != "" {
		namespace, name, ok := strings.Cut(s.KubernetesConfig, "/")
		if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
			found["kubernetes-config"] = fmt.Errorf("want NAMESPACE/NAME of a ConfigMap, not %q", s.KubernetesConfig)
		}
	}
	for _, kind := range s.OmittedKinds() {
		switch {
		case !slices.Contains(kubernetes.Kinds(), kind):
			found["kubernetes-omit"] = fmt.Errorf("no kind %q: want some of %s", kind,
				strings.Join(kubernetes.Kinds(), ", "))
		case kind == "pods":
			found["kubernetes-omit"] = errors.New("pods cannot be omitted, because the labels of endpoints come from " +
				"them: remove pods from the list")
		case kind == "nodes" && s.NATExcludeNodes:
			found["nat-exclude-nodes"] = errors.New("needs the addresses of nodes, " + nodesOmitted)
		case kind == "nodes" && s.Wireguard:
			found["wireguard"] = errors.New("needs the keys of nodes, " + nodesOmitted)
		case kind == "nodes" && s.TunnelsFromNodes == "true":
			found["tunnels-from-nodes"] = errors.New("needs the addresses of nodes, " + nodesOmitted)
		}
	}
	return found
}

// bridgesProblem returns why Bridges are not valid names of bridges, or nil.
func (s Settings) bridgesProblem() error {
	seen := map[string]bool{}
	for _, name := range s.BridgeNames() {
		_, err := render.New(render.Config{Bridges: []string{name}, InterfacePrefix: s.InterfacePrefix})
		_, refused := routes.New(routes.Config{Bridges: []string{name}})
		switch {
		case seen[name]:
			return fmt.Errorf("%q is duplicated: give each bridge once", name)
		case strings.HasPrefix(name, s.InterfacePrefix):
			return fmt.Errorf("%q begins with interface-prefix %q: give one of them another name", name,
				s.InterfacePrefix)
		case err != nil || refused != nil:
			return fmt.Errorf("%q cannot be the name of a bridge: %s", name, wantInterfaces)
		}
		seen[name] = true
	}
	return nil
}

// nodeProblem returns why a name is not a valid name of a node, or nil.
func nodeProblem(name string) error {
	var invalid *policy.ValidationError
	if errors.As((&policy.Node{Name: name}).Validate(), &invalid) {
		return fmt.Errorf("%s: give the name of this node", invalid.Problems[0].Msg)
	}
	return nil
}

// addressProblem returns why an address is not a valid listen address, or nil. An empty address is
// valid.
func addressProblem(address string) error {
	if address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("want HOST:PORT, not %q", address)
	}
	if _, err := net.LookupPort("tcp", port); err != nil || port == "" {
		return fmt.Errorf("invalid port %q: want 0 to 65535, or the name of a service", port)
	}
	_, err = netip.ParseAddr(host)
	if err != nil && (strings.ContainsFunc(host, notInHostName) || endsInNumber(host)) {
		return fmt.Errorf("invalid host %q: want an IP address or a host name", host)
	}
	return nil
}

// endsInNumber reports whether the last part of a host is a number, as in an IPv4 address. The last
// part of a host name is never a number.
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// notInHostName reports whether r cannot be in a host name.
func notInHostName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_'
}
