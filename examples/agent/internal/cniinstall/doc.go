// SPDX-License-Identifier: Apache-2.0

// Package cniinstall installs a CNI plugin and its network configuration on a node.
//
// # Usage
//
//	err := cniinstall.Install(cniinstall.Config{Plugin: "/wayleave-cni", Conflist: text, ...})
//	err = cniinstall.Remove("/etc/cni/net.d")
//
// A container runtime may call the plugin, or read the configuration, at any time. Therefore
// Install first writes each file under another name in the same folder, syncs it, and then renames
// it. It writes the configuration after the plugin, because the runtime calls the plugin once it
// finds the configuration. It does not write a file that already has the right content.
//
// # Concurrency
//
// Several calls of Install may run at once. The files are then those of the call that ends last.
//
// # Errors
//
// Errors name the file. After an error, each file has its old or its new content.
package cniinstall
