// SPDX-License-Identifier: Apache-2.0

// Package machine runs services on a simulated machine: a process 1 in namespaces of its own
// (mounts, processes, network, host name, IPC) that starts the services and restarts them.
//
// A machine sees the files of the host, except that /etc is a copy on write, and that /opt,
// /var/lib, /var/log and /run are its own. They are folders below [Config.Dir], so they outlast a
// machine that is killed; /run does not. /proc and /sys show the machine's own processes and
// links; control groups are those of the host.
//
// A machine ends with its process 1: the kernel then kills all its processes, and removes its
// mounts and links. So nothing is left of it but its folders and control groups, which
// [Machine.Remove] removes.
//
// The program that calls [Start] must call [Main] first in its own main: a machine's process 1 is
// the same program. All of it needs root, and Linux.
package machine
