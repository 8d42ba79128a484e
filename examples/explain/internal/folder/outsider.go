// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/probe"
	"github.com/wayleave/wayleave/policy/verdict"
)

// object has the fields of an object that show why a pod is not an endpoint. Errors are ignored
// here, because package manifest has validated the files before.
type object struct {
	APIVersion string `json:"apiVersion" yaml:"apiVersion"`
	Kind       string `json:"kind" yaml:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace" yaml:"namespace"`
		Name      string `json:"name" yaml:"name"`
	} `json:"metadata" yaml:"metadata"`
	Spec struct {
		NodeName    string `json:"nodeName" yaml:"nodeName"`
		HostNetwork bool   `json:"hostNetwork" yaml:"hostNetwork"`
	} `json:"spec" yaml:"spec"`
	Status struct {
		Phase  string `json:"phase" yaml:"phase"`
		HostIP string `json:"hostIP" yaml:"hostIP"`
		PodIP  string `json:"podIP" yaml:"podIP"`
		PodIPs []struct {
			IP string `json:"ip" yaml:"ip"`
		} `json:"podIPs" yaml:"podIPs"`
	} `json:"status" yaml:"status"`
	Items []object `json:"items" yaml:"items"`
}

// outsiders returns the pods of the files that are not in world, sorted by name.
func outsiders(files []string, world verdict.World) []probe.Excluded {
	found := map[string]probe.Excluded{}
	var add func(o object, kind string)
	add = func(o object, kind string) {
		if o.Kind != "" {
			kind = o.Kind
		}
		for _, item := range o.Items {
			add(item, strings.TrimSuffix(kind, "List"))
		}
		if kind != "Pod" || o.Metadata.Name == "" {
			return
		}
		if o.Metadata.Namespace == "" {
			o.Metadata.Namespace = "default"
		}
		key := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name}
		if world[key] == nil {
			out := o.outsider()
			found[out.Name] = out
		}
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // Read has reported the error
		}
		for _, o := range objects(data) {
			add(o, "")
		}
	}
	var out []probe.Excluded
	for _, o := range found {
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b probe.Excluded) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// outsider returns the reason why the pod is not an endpoint.
func (o object) outsider() probe.Excluded {
	out := probe.Excluded{Name: o.Metadata.Namespace + "/" + o.Metadata.Name}
	addresses := o.addresses()
	switch {
	case o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed":
		out.Why = "has ended, and has no network any more"
	case o.Spec.HostNetwork && len(addresses) == 0:
		out.Why = "uses the network of its node, whose address is not in the manifest (status.hostIP): policy does " +
			"not apply to it"
	case o.Spec.HostNetwork:
		out.Addresses = addresses
		out.Why = "uses the network of its node. Policy does not apply to it. The policy of other pods sees it as " +
			"the node's address. By default, a node may always send to its own pods."
	case o.Spec.NodeName == "":
		out.Why = "is on no node (spec.nodeName), and so has no network yet"
	case len(o.Status.PodIPs) == 0 && o.Status.PodIP == "":
		out.Why = "has no address (status.podIPs), and so no network yet"
	default:
		out.Why = "was rejected"
	}
	return out
}

func (o object) addresses() []netip.Addr {
	var texts []string
	for _, ip := range o.Status.PodIPs {
		texts = append(texts, ip.IP)
	}
	texts = append(texts, o.Status.PodIP)
	if o.Spec.HostNetwork {
		texts = append(texts, o.Status.HostIP)
	}
	var out []netip.Addr
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" && !slices.Contains(out, a.Unmap()) {
			out = append(out, a.Unmap())
		}
	}
	return out
}

// objects returns the documents of a file, as far as they can be read.
func objects(data []byte) []object {
	var out []object
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) { // a stream of JSON needs no marks between the documents
		decoder := json.NewDecoder(bytes.NewReader(data))
		for {
			var o object
			if decoder.Decode(&o) != nil {
				break
			}
			out = append(out, o)
		}
		if len(out) > 0 {
			return out
		}
	}
	var document []byte
	for line := range bytes.Lines(append(data, "\n---\n"...)) {
		if !bytes.HasPrefix(line, []byte("---")) {
			document = append(document, line...)
			continue
		}
		var o object
		_ = yaml.Unmarshal(document, &o) // sets the fields that can be decoded
		out = append(out, o)
		document = append(document[:0], bytes.TrimPrefix(line, []byte("---"))...)
	}
	return out
}
