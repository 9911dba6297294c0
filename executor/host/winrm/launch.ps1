# Starts a program that the first line of standard input describes; what follows is the program's input. A line of standard error says which process
# it is of, and begins with a word that nobody else knows, as one does that says why the program did not start.
$ErrorActionPreference = 'Stop'
$in = [Console]::OpenStandardInput()
$line = New-Object Text.StringBuilder
while (($c = $in.ReadByte()) -ge 0 -and $c -ne 10) { [void]$line.Append([char]$c) }
$o = [Text.Encoding]::UTF8.GetString([Convert]::FromBase64String($line.ToString().Trim())) | ConvertFrom-Json
[Console]::Error.WriteLine("$($o.Word) $PID")
try {
$i = New-Object Diagnostics.ProcessStartInfo
$i.FileName = $o.Program
$i.Arguments = $o.Arguments
$i.UseShellExecute = $false
$i.WorkingDirectory = $env:USERPROFILE
if ($o.Dir) { $i.WorkingDirectory = $o.Dir }
foreach ($v in $o.Env) { $n, $x = $v -split '=', 2; $i.EnvironmentVariables[$n] = $x }
$p = [Diagnostics.Process]::Start($i)
} catch {
$e = $_.Exception.GetBaseException()
$code = 0
if ($e -is [ComponentModel.Win32Exception]) { $code = $e.NativeErrorCode }
[Console]::Error.WriteLine("$($o.Word) failed $code " + [Convert]::ToBase64String([Text.Encoding]::UTF8.GetBytes($e.Message)))
exit 1
}
$p.WaitForExit()
exit $p.ExitCode
