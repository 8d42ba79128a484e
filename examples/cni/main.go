// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"
)

func main() {
	skel.PluginMainFuncs(skel.CNIFuncs{Add: add, Del: del, Check: check, Status: status},
		version.PluginSupports("1.0.0", "1.1.0"), "wayleave: a CNI plugin for nodes that run the Wayleave agent")
}
