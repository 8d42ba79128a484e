// SPDX-License-Identifier: Apache-2.0

// Command cluster runs a Kubernetes cluster on one machine, with Wayleave as its network, and tests
// it.
package main
