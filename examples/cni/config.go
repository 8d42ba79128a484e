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
	// Socket that the agent listens at.
	Socket string `json:"socket"`
	// EndpointDir is the agent's setting of that name. DEL uses it while no agent runs.
	EndpointDir string `json:"endpointDir"`
	// Namespace of endpoints that are no pods.
	Namespace string `json:"namespace"`
	// InterfacePrefix is the prefix of the names of host interfaces: the agent's setting of that name.
	InterfacePrefix string `json:"interfacePrefix"`
	// Labels and Profiles of all endpoints of the network.
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

// podArgs are the arguments that Kubernetes' runtimes give.
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
	// pod is set if it is a pod, and uid is the pod's UID, if the runtime gives it.
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

// parameters adds to the parameters of a request which pod it is about.
func (k container) parameters(q url.Values) url.Values {
	if k.pod {
		q.Set(api.PodUID, k.uid)
	}
	return q
}

// hashLength is how many digits of a hash a name has: with a prefix of three it fits the kernel's
// 15 bytes.
const hashLength = 12

// hostInterface returns the name of the host's side of the link: for pods the one that package
// kubernetes/convert gives.
func (c *config) hostInterface(k container) string {
	sum := sha256.Sum256([]byte(k.Namespace + "/" + k.Name))
	return c.InterfacePrefix + hex.EncodeToString(sum[:])[:hashLength]
}

// mac returns the MAC address of a container's side of the link. It is derived from the container's ID. So DEL knows
// whether a registered endpoint belongs to that container, or to another sandbox of the same pod.
func mac(args *skel.CmdArgs) net.HardwareAddr {
	sum := sha256.Sum256([]byte(args.ContainerID + "/" + args.IfName))
	addr := net.HardwareAddr(sum[:6])
	addr[0] = addr[0]&^1 | 2 // of one interface, administered locally
	return addr
}

// runtimeAddresses returns the addresses that the runtime gave.
func (c *config) runtimeAddresses() ([]netip.Addr, error) {
	var addrs []netip.Addr
	for _, text := range c.RuntimeConfig.IPs {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			addr, err2 := netip.ParseAddr(text)
			if err2 != nil {
				return nil, types.NewError(types.ErrInvalidNetworkConfig,
					fmt.Sprintf("runtimeConfig.ips: %q is no address", text), err.Error())
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		addrs = append(addrs, prefix.Addr().Unmap())
	}
	return addrs, nil
}
