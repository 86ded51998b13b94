{{/* All of these take a dictionary: root, the chart's own context, and name, that of a process. */}}

{{- define "assent.labels" -}}
app.kubernetes.io/name: assent
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "assent.metadata" -}}
name: {{ .root.Release.Name }}-{{ .name }}
labels:
  {{- include "assent.labels" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{/* What the chart knows by itself; `settings` of the values come last and win. */}}
{{- define "assent.settings" -}}
{{- $values := .root.Values }}
{{- $host := trimPrefix "https://" $values.publicUrl }}
{{- $settings := dict "ASSENT_PUBLIC_URL" $values.publicUrl "ASSENT_ALLOWED_HOSTS" (regexReplaceAll ":[0-9]+$" $host "") }}
{{- $_ := set $settings "ASSENT_BEHIND_PROXY" "1" }}
{{- range list "web" "worker" "courier" "bus" }}
{{- $_ := set $settings (printf "ASSENT_%s_PROCESSES" (upper .)) (index $values.processes . "replicas" | toString) }}
{{- end }}
{{- if $values.processes.slack.replicas }}
{{- $_ := set $settings "ASSENT_SLACK_TRANSPORT" "socket" }}
{{- end }}
{{- if eq .name "bus" }}
{{- $_ := set $settings "ASSENT_GIT_BUS_FOLDER" "/buses" }}
{{- end }}
{{- if and (eq .name "sweeper") $values.logClaim }}
{{- $_ := set $settings "ASSENT_LOG_FILE" "/log/checkpoints" }}
{{- end }}
{{- toYaml (mergeOverwrite $settings ($values.settings | default dict) (index $values.processes .name "settings" | default dict)) }}
{{- end }}

{{- define "assent.environment" -}}
{{- $table := .root.Files.Get "processes.yaml" | fromYaml }}
{{- $secrets := index $table.processes .name }}
{{- $all := list }}
{{- range $table.processes }}{{ $all = concat $all . | uniq }}{{ end }}
{{- $settings := include "assent.settings" . | fromYaml }}
{{- range $variable, $text := $settings }}
{{- if has (trimSuffix "_FILE" $variable) (concat $all (list "DATABASE_URL" "REDIS_URL")) }}
{{- fail (printf "%s is a secret: put it into the Secret %s, not into settings." $variable $.root.Values.secret) }}
{{- end }}
- name: {{ $variable }}
  value: {{ $text | quote }}
{{- end }}
{{- range $secret, $said := $table.says_it_is_set }}
{{- if not (has $secret $secrets) }}
{{- if eq $secret "ASSENT_SLACK_BOT_TOKEN" | ternary $.root.Values.slack $.root.Values.mail }}
- name: {{ $said }}
  value: "1"
{{- end }}
{{- end }}
{{- end }}
{{- range concat $table.for_all $secrets }}
{{- if not (hasKey $settings .) }}
- name: {{ . }}
  valueFrom: { secretKeyRef: { name: {{ quote $.root.Values.secret }}, key: {{ . }}, optional: {{ not (has . $table.required) }} } }
{{- end }}
{{- end }}
{{- end }}

{{- define "assent.pod" -}}
{{- $values := .root.Values }}
{{- $calls := has .name (list "worker" "courier" "sweeper") -}}
metadata:
  labels:
    {{- include "assent.labels" . | nindent 4 }}
spec:
  # The name of a Service would become a variable such as ASSENT_PORT.
  enableServiceLinks: false
  automountServiceAccountToken: false
  # The longest call that a manifest may ask for, and ten seconds; most workers end at once.
  terminationGracePeriodSeconds: {{ ternary 610 30 $calls }}
  {{- if eq .name "migrate" }}
  restartPolicy: Never
  {{- else }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "assent.labels" . | nindent 10 }}
  {{- end }}
  {{- with $values.pods }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 0
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: { type: RuntimeDefault }
  containers:
    - name: {{ .name }}
      image: {{ required "Set image, best by digest; the chart of a release names its own." $values.image | quote }}
      args: [assent, run, {{ .name }}{{ if eq .name "web" }}, --host, "0.0.0.0", --port, "8000"{{ end }}]
      env:
        {{- include "assent.environment" . | trim | nindent 8 }}
      resources:
        {{- index $values.processes .name "resources" | default dict | toYaml | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
      {{- if eq .name "web" }}
      ports: [{ name: http, containerPort: 8000 }]
      startupProbe: { httpGet: { path: /healthz, port: http }, periodSeconds: 2, failureThreshold: 60 }
      livenessProbe: { httpGet: { path: /healthz, port: http }, periodSeconds: 5, timeoutSeconds: 4 }
      readinessProbe: { httpGet: { path: /readyz, port: http }, periodSeconds: 5, timeoutSeconds: 4 }
      # Until no proxy sends anything here any more.
      lifecycle: { preStop: { sleep: { seconds: 10 } } }
      {{- end }}
      volumeMounts:
        - { name: memory, mountPath: /tmp }
        {{- if eq .name "bus" }}
        - { name: buses, mountPath: /buses }
        {{- end }}
        {{- if and (eq .name "sweeper") $values.logClaim }}
        - { name: log, mountPath: /log }
        {{- end }}
  volumes:
    - { name: memory, emptyDir: { medium: Memory, sizeLimit: 64Mi } }
    {{- if eq .name "bus" }}
    - { name: buses, emptyDir: {} } # copies, which can be thrown away at any moment
    {{- end }}
    {{- if and (eq .name "sweeper") $values.logClaim }}
    - { name: log, persistentVolumeClaim: { claimName: {{ $values.logClaim }} } }
    {{- end }}
{{- end }}
