// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/policy"
)

// config is the network configuration.
type config struct {
	types.NetConf
	// Socket is the path of the agent's socket.
	Socket string `json:"socket"`
	// EndpointDir is the agent's setting endpoint-dir. DEL uses it while no agent runs.
	EndpointDir string `json:"endpointDir"`
	// Namespace is the namespace of endpoints that are not pods.
	Namespace string `json:"namespace"`
	// InterfacePrefix is the prefix of the names of host interfaces: the agent's setting
	// interface-prefix.
	InterfacePrefix string `json:"interfacePrefix"`
	// Labels and Profiles are those of all endpoints of the network.
	Labels   map[string]string `json:"labels"`
	Profiles []string          `json:"profiles"`
	// MTU of both interfaces; 0 means the kernel's default.
	MTU int `json:"mtu"`
	// Timeout of requests to the agent, such as "30s".
	Timeout string `json:"timeout"`
	// RuntimeConfig has the addresses if there is no ipam.
	RuntimeConfig struct {
		IPs []string `json:"ips"`
	} `json:"runtimeConfig"`

	timeout time.Duration
}

// podArgs are the arguments that container runtimes of Kubernetes pass in CNI_ARGS.
type podArgs struct {
	types.CommonArgs
	//revive:disable the names are those of CNI_ARGS
	K8S_POD_NAME      types.UnmarshallableString
	K8S_POD_NAMESPACE types.UnmarshallableString
	K8S_POD_UID       types.UnmarshallableString
}

func parse(data []byte) (*config, error) {
	c := &config{
		Socket: "/run/wayleave/agent.sock", EndpointDir: "/var/lib/wayleave/endpoints", Namespace: "cni",
		InterfacePrefix: "way", Timeout: "30s",
	}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "the network configuration is invalid", err.Error())
	}
	var err error
	if c.timeout, err = time.ParseDuration(c.Timeout); err != nil || c.timeout <= 0 {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, "timeout: want a time, as in 30s", c.Timeout)
	}
	return c, nil
}

// container identifies the endpoint of a container.
type container struct {
	policy.Key
	// pod is set if the container is a pod. uid is the pod's UID, if the runtime passes it.
	pod bool
	uid string
}

// identify returns the identity of a container's endpoint.
func (c *config) identify(args *skel.CmdArgs) (container, error) {
	k := container{Key: policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: c.Namespace, Name: args.ContainerID}}
	pod := podArgs{CommonArgs: types.CommonArgs{IgnoreUnknown: true}}
	if err := types.LoadArgs(args.Args, &pod); err != nil {
		return k, types.NewError(types.ErrInvalidEnvironmentVariables, "CNI_ARGS is invalid", err.Error())
	}
	if pod.K8S_POD_NAME != "" && pod.K8S_POD_NAMESPACE != "" {
		k.Namespace, k.Name = string(pod.K8S_POD_NAMESPACE), string(pod.K8S_POD_NAME)
		k.pod, k.uid = true, string(pod.K8S_POD_UID)
	}
	return k, nil
}

// parameters adds the pod's UID to the parameters of a request.
func (k container) parameters(q url.Values) url.Values {
	if k.pod {
		q.Set(api.PodUID, k.uid)
	}
	return q
}

// hashLength is how many digits of a hash are in the name of an interface. With a prefix of three
// letters, the name has 15 bytes, the kernel's maximum.
const hashLength = 12

// hostInterface returns the name of the host's side of the link. For pods, it is the name that
// package kubernetes/convert computes.
func (c *config) hostInterface(k container) string {
	sum := sha256.Sum256([]byte(k.Namespace + "/" + k.Name))
	return c.InterfacePrefix + hex.EncodeToString(sum[:])[:hashLength]
}

// mac returns the MAC address of a container's side of the link. It is derived from the container's
// ID. By the MAC address, DEL distinguishes the registered endpoint of the container from that of
// another sandbox of the same pod.
func mac(args *skel.CmdArgs) net.HardwareAddr {
	sum := sha256.Sum256([]byte(args.ContainerID + "/" + args.IfName))
	addr := net.HardwareAddr(sum[:6])
	addr[0] = addr[0]&^1 | 2 // unicast, locally administered
	return addr
}

// runtimeAddresses returns the addresses that the runtime has passed.
func (c *config) runtimeAddresses() ([]netip.Addr, error) {
	var addrs []netip.Addr
	for _, text := range c.RuntimeConfig.IPs {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			addr, err2 := netip.ParseAddr(text)
			if err2 != nil {
				return nil, types.NewError(types.ErrInvalidNetworkConfig,
					fmt.Sprintf("runtimeConfig.ips: %q is not an address", text), err.Error())
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		addrs = append(addrs, prefix.Addr().Unmap())
	}
	return addrs, nil
}
