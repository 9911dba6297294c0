# What the programs of the driver share: the shape of the documented libvirt driver (docs/executors/custom_examples/libvirt.md).
VM_ID="runner-$CUSTOM_ENV_CI_RUNNER_ID-project-$CUSTOM_ENV_CI_PROJECT_ID-concurrent-$CUSTOM_ENV_CI_CONCURRENT_PROJECT_ID-job-$CUSTOM_ENV_CI_JOB_ID"
VM_IMAGE="$IMAGES/$VM_ID.qcow2"

# An interface of libvirt is one line "name MAC protocol address/bits".
vm_ip() { virsh -q domifaddr "$VM_ID" | awk '{print $4}' | sed -E 's|/([0-9]+)?$||'; }

vm_ssh() {
  ssh -F none -i "$VM_KEY" -p "$VM_PORT" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "$VM_USER@$(vm_ip)" "$@"
}
